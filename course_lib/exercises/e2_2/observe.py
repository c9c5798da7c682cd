"""Exercise 2.2, in a rank: gradients of one model from micro-batches; also of 2.3."""

import copy
from functools import partial

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises.compare import are_same, gradients_of
from course_lib.exercises.counted_work import Work
from course_lib.exercises.device_runs import one_gpu, watch


def observe(rank, world_size, answer, given):
    """Return what `answer(model, microbatches)` leaves in the model, and what it costs.

    `given` has the model and its micro-batches, pairs of samples and targets. `again`
    are the gradients of a second call, which leaves out the last micro-batch.
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
    handed, fresh = list(pairs), copy.deepcopy(model)
    cost = _cost(answer, model, handed)
    if given["again"]:
        answer(fresh, list(zip(copies[::2], copies[1::2]))[:-1])
    grads = gradients_of(model)
    return cost | {
        "grads": grads,
        "without": [name for name, _ in model.named_parameters() if name not in grads],
        "moved": not all(map(torch.equal, before, model.parameters())),
        "again": gradients_of(fresh),
        "changed": not (
            are_same(handed, pairs) and all(map(torch.equal, copies, parts))
        ),
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
