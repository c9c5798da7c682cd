"""Exercise 2.1, in a rank: a training with gradient accumulation, watched."""

import copy
import itertools
from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises.compare import are_same
from course_lib.exercises.counted_work import Work
from course_lib.exercises.device_runs import one_gpu, watch
from course_lib.exercises.values import plain


def observe(rank, world_size, answer, given):
    """Return what a training of `given["model"]` gives, and its bytes at the peak.

    Beside it those of whole batches and of parts one after the other.
    """
    device, _ = one_gpu()
    found = _watched(answer, given, device=device, parts=given["parts"])
    needed = costs(partial(_watched, _plain, device=device), given)
    return found | {"baseline": needed, "device": str(device)}


def costs(training: Callable, given: dict) -> dict:
    """Return what whole batches and right accumulation need: peak bytes and FLOPs.

    `training(given, parts=...)` watches a right one.
    """
    # in the second one the state of the optimizer lies there, too
    few = given | {"batches": given["batches"][:2]}
    whole, own = (training(few, parts=parts) for parts in (1, given["parts"]))
    times = len(given["batches"]) / len(few["batches"])
    flops = {name: times * count for name, count in own["flops"].items()}
    return {"whole": whole["peak"], "peak": own["peak"], "flops": flops}


def _watched(train, given, *, device, parts):
    model = copy.deepcopy(given["model"]).to(device)
    optimizer = given["optimizer"](model.parameters())
    settings = _settings(optimizer)
    steps = []  # the gradients at each, on the CPU, where they cost the device nothing
    optimizer.register_step_pre_hook(lambda *_: steps.append(_grads(model)))
    batches = [tuple(part.clone() for part in pair) for pair in given["batches"]]
    work, handed = Work(model), list(batches)

    def call():
        with work:
            return plain(train(model, optimizer, handed, parts))

    run = watch(call, [device])
    pairs = zip(itertools.chain(*batches), itertools.chain(*given["batches"]))
    return {
        "returned": run.result,
        "weights": {n: p.detach().cpu().clone() for n, p in model.named_parameters()},
        "changed": not (
            are_same(handed, batches) and all(torch.equal(*pair) for pair in pairs)
        ),
        "steps": len(steps),
        "first": steps[0] if steps else {},
        "settings": (settings, _settings(optimizer)),
        "peak": max(run.peak.values()) - max(run.before.values()),
        "flops": work.flops,
        "passes": work.passes,
        "trace": run.trace,
    }


def _grads(model):
    return {n: p.grad.cpu() for n, p in model.named_parameters() if p.grad is not None}


def _settings(optimizer):
    """Learning rates and all else that a group of parameters has beside them."""
    groups = optimizer.param_groups
    return plain([{k: v for k, v in g.items() if k != "params"} for g in groups])


def _plain(model, optimizer, batches, parts):
    """Train with right accumulation: what costs are compared with."""
    device = next(model.parameters()).device
    for images, labels in batches:
        optimizer.zero_grad()
        for x, y in zip(images.chunk(parts), labels.chunk(parts)):
            loss = cross_entropy(model(x.to(device)), y.to(device))
            (loss / parts).backward()
        optimizer.step()
