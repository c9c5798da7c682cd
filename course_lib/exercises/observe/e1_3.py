"""Exercise 1.3, in a rank: micro-batches through two devices, watched."""

import copy

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises.compare import noted
from course_lib.exercises.device_runs import on_devices, watch
from course_lib.exercises.spies import Work

BLOCKS = 8  # equal parts of the batch whose gradients are known one by one
_EVERY = 997  # one number of so many stands for a gradient where it is looked into


def observe(rank, world_size, answer, given):
    """Gradients, time, work and copies of `answer`, and of the whole batch at once."""
    baseline = costs(given)
    devs = on_devices(2, gpu="T4", link="PCIe3")
    parts, x, labels = _placed(given, devs)
    before = _weights(parts)

    def call():
        for part in parts:
            part.zero_grad()
        answer(*parts, devs, x, labels)

    with noted(torch.autograd, "backward") as backward:
        run, work = _watched(call, devs, parts[0])
    found, expected = _grads(parts), baseline["grads"]
    return {
        "names": tuple(map(str, devs)),
        "without": sum(grad is None for grad in found),
        "off": _off(found, expected),
        "sample": _sample(found, expected),
        "backward": len(backward),
        "moved": not all(map(torch.equal, before, _weights(parts))),
        "flops": work.flops,
        "passes": work.passes,
        "crossings": run.crossings(),
        "seconds": run.seconds,
        "trace": run.trace,
        "baseline": {k: part for k, part in baseline.items() if k != "grads"},
    }


def costs(given):
    """Gradients, time, work and copies of the whole batch, gradients of its blocks."""
    devs = on_devices(2, gpu="T4", link="PCIe3")
    parts, x, labels = _placed(given, devs)

    def gradient(rows=slice(None)):
        for part in parts:
            part.zero_grad()
        output = parts[1](parts[0](x[rows]).to(devs[1]))
        cross_entropy(output, labels[rows]).backward()

    run, work = _watched(gradient, devs, parts[0])
    grads, each = _grads(parts), []
    for rows in torch.arange(len(x)).chunk(BLOCKS):
        gradient(slice(rows[0], rows[-1] + 1))
        each.append(_sample(_grads(parts), grads))
    crossed = sum(run.crossings())
    costs = {"seconds": run.seconds, "crossed": crossed, "flops": work.flops}
    return costs | {"grads": grads, "each": each}


def _watched(call, devs, model):
    """A run of a call, and its work."""
    work = Work(model)

    def counted():
        with work:
            call()

    run = watch(counted, devs)
    if devs[0].type == "cuda":  # counting takes the host time there
        run = watch(call, devs, warm=2)
    return run, work


def _placed(given, devs):
    """Copies of both parts, of the batch and of the labels where they belong."""
    parts = [copy.deepcopy(part).to(d) for part, d in zip(given["parts"], devs)]
    return parts, given["x"].to(devs[0]), given["labels"].to(devs[1])


def _weights(parts):
    return [p.detach().cpu().clone() for part in parts for p in part.parameters()]


def _grads(parts):
    grads = [p.grad for part in parts for p in part.parameters()]
    return [grad if grad is None else grad.cpu().clone() for grad in grads]


def _off(found, expected):
    """The largest difference relative to the largest number; inf if there is none."""
    if any(grad is None for grad in found):
        return float("inf")
    gaps = [(one - other).abs().max() for one, other in zip(found, expected)]
    off = torch.stack(gaps).max() / max(grad.abs().max() for grad in expected)
    return off.item() if off.isfinite() else float("inf")


def _sample(found, expected):
    """Some numbers of all gradients in one vector, 0 where there is none."""
    both = zip(found, expected)
    grads = [torch.zeros_like(e) if grad is None else grad for grad, e in both]
    return torch.cat([grad.flatten() for grad in grads])[::_EVERY].clone()
