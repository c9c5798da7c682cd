"""Exercise 4.5b, in a rank: a data-parallel loop by hand that makes its own model."""

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from course_lib.exercises import baseline
from course_lib.exercises.compare import state_of
from course_lib.exercises.counted_traffic import Traffic
from course_lib.exercises.counted_work import flops_of
from course_lib.exercises.values import plain


def observe(rank, world_size, answer, given):
    """Return what a training gives, the models made, its first step, its cost."""
    made, first = [], {}

    def make_model():
        model = baseline.unseeded()
        made.append(state_of(model))
        return model

    def step(optimizer, *_):
        if not first:
            parameters = [p for g in optimizer.param_groups for p in g["params"]]
            first.update(state_of(dict(zip(names, parameters))))

    names = list(baseline.network().state_dict())
    own = slice(rank, None, world_size)
    needed = flops_of([[part[own] for part in batch] for batch in given["batches"]])
    # other weights on each rank, the same every time
    torch.manual_seed(given["seed"] + rank)
    handle = register_optimizer_step_pre_hook(step)
    with Traffic(baseline.network()) as traffic:
        returned = answer(rank, world_size, make_model, given["batches"])
    handle.remove()
    if isinstance(returned, nn.Module):
        returned = returned.state_dict()
    started, *steps = traffic.sent
    return {
        "returned": plain(returned),
        "made": made[-1] if made else {},
        "models": len(made),
        "first": first,
        "started": sum(size for _, size in started),
        "sent": sum(size for calls in steps for _, size in calls),
        "reduced": sum(traffic.calls("all_reduce")),
        "flops": sum(traffic.flops.values()),
        "baseline": {"flops": needed},
    }
