"""Exercise 2.2, in a rank: gradients of one model from micro-batches; also of 2.3."""

import copy
import gc

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises.device_runs import one_gpu
from course_lib.exercises.spies import Work


def observe(rank, world_size, answer, given):
    """What `answer(model, microbatches)` leaves in the model, and what it costs.

    `given` has the model and its micro-batches, pairs of samples and targets.
    """
    device, gpu = one_gpu()
    model = given["model"].to(device)
    pairs = [tuple(part.to(device) for part in pair) for pair in given["microbatches"]]
    copies = [tuple(part.clone() for part in pair) for pair in pairs]
    before = [p.detach().clone() for p in model.parameters()]
    baseline = {
        "one": _cost(
            gpu, device, copy.deepcopy(model), lambda m: _one_by_one(m, pairs)
        ),
        "all": _cost(gpu, device, copy.deepcopy(model), lambda m: _at_once(m, pairs)),
    }
    cost = _cost(gpu, device, model, lambda m: answer(m, list(pairs)))
    changed = [
        not torch.equal(part, other)
        for pair, others in zip(pairs, copies)
        for part, other in zip(pair, others)
    ]
    moved = any(not torch.equal(*two) for two in zip(before, model.parameters()))
    grads = {name: p.grad for name, p in model.named_parameters()}
    left = {n: g.detach().cpu() for n, g in grads.items() if torch.is_tensor(g)}
    return cost | {
        "grads": left,
        "without": [name for name in grads if name not in left],
        "moved": moved,
        "changed": any(changed),
        "device": str(device),
        "baseline": baseline,
    }


def _cost(gpu, device, model, call):
    """FLOPs by device, samples in each pass, and the bytes above those before."""
    gc.collect()
    before = gpu.memory_allocated(device)
    gpu.reset_peak_memory_stats(device)
    with Work(model) as work:
        call(model)
    peak = gpu.max_memory_allocated(device) - before
    return {"flops": work.flops, "passes": work.passes, "peak": peak}


def _one_by_one(model, pairs):
    for samples, targets in pairs:
        _loss(model, samples, targets).backward()


def _at_once(model, pairs):
    sum(_loss(model, *pair) for pair in pairs).backward()


def _loss(model, samples, targets):
    """Of targets i64[n] and i64[n, length] alike: classes in dimension 1."""
    return cross_entropy(model(samples).movedim(-1, 1), targets)
