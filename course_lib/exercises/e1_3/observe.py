"""Exercise 1.3, in a rank: micro-batches through two devices, watched."""

import copy
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises.compare import CLOSE, gap, largest
from course_lib.exercises.counted_work import Work
from course_lib.exercises.device_runs import on_devices, watch
from course_lib.system.host import usable_cores

BLOCKS = 8  # equal parts of the batch whose gradients are known one by one
# Seconds per operator: a fast host, as its own time is not what is to be learned. An
# addition alone takes 7 to 10 µs (benchmarks/gpu.md).
_LAUNCH = 10e-6
_EVERY = 997  # one number of so many stands for a gradient where it is looked into


def observe(rank, world_size, answer, given):
    """Return gradients, time, work and copies of `answer`, and of the whole batch."""
    devs = on_devices(2, gpu="T4", link="PCIe3", launch=_LAUNCH)
    # not for the answer, whose limit counts the time of all its threads
    torch.set_num_threads(usable_cores())
    baseline, expected = costs(given, devs)
    torch.set_num_threads(1)
    parts, x, labels = _placed(given, devs)
    before = _weights(parts)

    def call():
        _clear(parts)
        answer(*parts, devs, x, labels)

    run, work = _watched(call, devs, parts[0])
    found = _grads(parts)
    off = _off(found, expected)
    # where they agree, blocks cost as much as the batch, and tell nothing
    each = [] if off <= CLOSE else _of_blocks(given, devs)
    return {
        "names": tuple(map(str, devs)),
        "without": [name for name, grad in found.items() if grad is None],
        "off": off,
        "grads": _sample(found),
        "moved": not all(map(torch.equal, before, _weights(parts))),
        "flops": work.flops,
        "passes": work.passes,
        "crossings": run.crossings(),
        "seconds": run.seconds,
        "trace": run.trace,
        "baseline": baseline | {"each": each or [_sample(expected)] * BLOCKS},
    }


def costs(given, devs):
    """Return time, work and copies of the whole batch at once, and its gradients."""
    parts, x, labels = _placed(given, devs)
    call = partial(_backward, parts, x, labels, devs[1])
    run, work = _watched(call, devs, parts[0])
    crossed = sum(run.crossings())
    costs = {"seconds": run.seconds, "crossed": crossed, "flops": work.flops}
    return costs, _grads(parts)


def _clear(parts):
    for part in parts:
        part.zero_grad()


def _backward(parts, x, labels, second):
    _clear(parts)  # on CUDA this is called more than once
    cross_entropy(parts[1](parts[0](x).to(second)), labels).backward()


def _of_blocks(given, devs):
    """The gradient of each block of the batch, by itself."""
    parts, *batch = _placed(given, devs)
    each = []
    for x, labels in zip(*(part.chunk(BLOCKS) for part in batch)):
        _backward(parts, x, labels, devs[1])
        each.append(_sample(_grads(parts)))
    return each


def _watched(call, devs, model):
    """A run of a call, and its work."""
    work = Work(model)

    def counted():
        with work:
            call()

    return watch(counted, devs), work


def _placed(given, devs):
    """Copies of both parts, of the batch and of the labels where they belong."""
    parts = [copy.deepcopy(part).to(d) for part, d in zip(given["parts"], devs)]
    return parts, given["x"].to(devs[0]), given["labels"].to(devs[1])


def _weights(parts):
    return [p.detach().cpu().clone() for part in parts for p in part.parameters()]


def _grads(parts):
    """The gradient of each parameter by its name, or None."""
    named = nn.ModuleDict(zip(("part_1", "part_2"), parts)).named_parameters()
    return {n: p.grad if p.grad is None else p.grad.cpu().clone() for n, p in named}


def _off(found, expected):
    """The largest difference relative to the largest number; inf if there is none."""
    if any(grad is None for grad in found.values()):
        return float("inf")
    return gap(found, expected) / largest(expected)


def _sample(grads):
    """Some numbers of each gradient that is there."""
    there = {name: grad for name, grad in grads.items() if grad is not None}
    return {name: grad.flatten()[::_EVERY].clone() for name, grad in there.items()}
