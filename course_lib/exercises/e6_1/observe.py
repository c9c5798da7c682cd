"""Exercise 6.1, in a rank: the rates that the updates of two trainings really use."""

import traceback

import torch
from torch.optim import Optimizer

from course_lib.exercises.values import number_of, plain
from course_lib.stacks import Frame, is_learners


def observe(rank, world_size, answer, given):
    """Return what comes of the scheduler in two trainings, one after the other."""
    return {"trainings": [_training(answer, given) for _ in range(2)]}


def _training(answer, given):
    """The rates of each parameter group by update; else what came back instead."""
    weights = [torch.nn.Parameter(torch.zeros(2)) for _ in given["own"]]
    # as one writes it: the first group has the default, the others their own rate
    groups = [{"params": [w], "lr": r} for w, r in zip(weights, given["own"])]
    del groups[0]["lr"]
    optimizer = given["optimizer"](groups, lr=given["own"][0])
    before, early, used = _settings(optimizer), [], []
    optimizer.register_step_pre_hook(lambda *_: early.append(1))
    scheduler = answer(optimizer, given["k"], given["warmup_steps"])
    found = {"returned": plain(scheduler), "kind": type(scheduler).__name__}
    own = isinstance(scheduler, type | Optimizer)
    if own or not callable(getattr(scheduler, "step", None)):
        return found
    found["kind"] = "scheduler"
    found["early"] = len(early)
    found["ahead"] = _number(getattr(scheduler, "last_epoch", 0)) or 0.0

    def note(*_):
        groups = optimizer.param_groups
        rates = {id(weight): g["lr"] for g in groups for weight in g["params"]}
        used.append([_number(rates.get(id(weight))) for weight in weights])

    optimizer.register_step_pre_hook(note)  # after hooks of the answer
    try:
        for _ in range(given["updates"]):
            optimizer.step()
            scheduler.step()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if any(is_learners(Frame(*frame[:3])) for frame in frames):
            raise  # with the line that it was in
        raised = f"{type(error).__name__}: {error}"
        return found | {"kind": "raised", "returned": raised}
    return found | {
        "rates": [list(rates) for rates in zip(*used)],
        "steps": len(used),
        "settings": {"before": before, "after": _settings(optimizer)},
    }


def _settings(optimizer):
    """All that each group has beside its parameters and its rate."""
    return [
        {key: plain(group[key]) for key in group if key not in ("params", "lr")}
        for group in optimizer.param_groups
    ]


def _number(value):
    return number_of(plain(value))
