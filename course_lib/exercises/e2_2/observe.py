"""Exercise 2.2, in a rank: gradients of one model from micro-batches; also of 2.3."""

import copy
from functools import partial

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises.counted_work import Work
from course_lib.exercises.device_runs import one_gpu, watch


def observe(rank, world_size, answer, given):
    """Return what `answer(model, microbatches)` leaves in the model, and what it costs.

    `given` has the model and its micro-batches, pairs of samples and targets.
    """
    device, _ = one_gpu()
    model = given["model"].to(device)
    pairs = [tuple(part.to(device) for part in pair) for pair in given["microbatches"]]
    parts = [part for pair in pairs for part in pair]
    copies = [part.clone() for part in parts]
    before = [p.detach().clone() for p in model.parameters()]
    baseline = {
        "one": _cost(_one_by_one, copy.deepcopy(model), pairs),
        "all": _cost(_at_once, copy.deepcopy(model), pairs),
    }
    cost = _cost(answer, model, list(pairs))
    grads = {name: p.grad for name, p in model.named_parameters()}
    return cost | {
        "grads": {n: g.detach().cpu() for n, g in grads.items() if g is not None},
        "without": [name for name, grad in grads.items() if grad is None],
        "moved": not all(map(torch.equal, before, model.parameters())),
        "changed": not all(map(torch.equal, copies, parts)),
        "device": str(device),
        "baseline": baseline,
    }


def _cost(call, model, pairs):
    """FLOPs by device, samples in each pass, and the bytes above those before."""
    device = pairs[0][0].device
    with Work(model) as work:
        run = watch(partial(call, model, pairs), [device])
    peak = run.peak[str(device)] - run.before[str(device)]
    return {"flops": work.flops, "passes": work.passes, "peak": peak}


def _one_by_one(model, pairs):
    for samples, targets in pairs:
        _loss(model, samples, targets).backward()


def _at_once(model, pairs):
    sum(_loss(model, *pair) for pair in pairs).backward()


def _loss(model, samples, targets):
    """Of targets i64[n] and i64[n, length] alike: classes in dimension 1."""
    return cross_entropy(model(samples).movedim(-1, 1), targets)
