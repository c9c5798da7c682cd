"""Exercise 6.1, in a rank: the rates that the updates of two trainings really use."""

import traceback

import torch
from torch.optim import Optimizer

from course_lib.exercises.values import number_of, plain
from course_lib.stacks import Frame, is_learners


def observe(rank, world_size, answer, given):
    """What comes of the scheduler in two trainings, one after the other."""
    return {"trainings": [_training(answer, given) for _ in range(2)]}


def _training(answer, given):
    """The rates of each parameter group by update; else what came back instead."""
    weights = [torch.nn.Parameter(torch.zeros(2)) for _ in given["own"]]
    # as one writes it: the first group has the default, the others their own rate
    groups = [{"params": [w], "lr": r} for w, r in zip(weights, given["own"])]
    del groups[0]["lr"]
    optimizer = given["optimizer"](groups, lr=given["own"][0])
    before, steps, used = _settings(optimizer), [], [[] for _ in weights]
    optimizer.register_step_pre_hook(lambda *_: steps.append(1))
    scheduler = answer(optimizer, given["k"], given["warmup_steps"])
    found = {"returned": plain(_said(scheduler)), "kind": _kind(scheduler)}
    if found["kind"] != "scheduler":
        return found
    found |= {"early": len(steps), "ahead": _number(scheduler, "last_epoch")}

    def note(*_):
        for weight, rates in zip(weights, used):
            rates.append(_rate(optimizer, weight))

    optimizer.register_step_pre_hook(note)  # after hooks of the answer
    try:
        for _ in range(given["updates"]):
            optimizer.step()
            scheduler.step()
    except Exception as error:
        if _is_in_a_line_of_the_answer(error):
            raise  # with the line that it was in
        return found | {
            "kind": "raised",
            "returned": f"{type(error).__name__}: {error}",
        }
    after = [
        {key: group.get(key) for key in old}
        for group, old in zip(_settings(optimizer), before)
    ]
    found |= {"rates": used, "steps": len(steps) - found["early"]}
    return found | {"settings": {"before": before, "after": after}}


def _is_in_a_line_of_the_answer(error):
    frames = traceback.extract_tb(error.__traceback__)
    return any(is_learners(Frame(f.filename, f.lineno, f.name)) for f in frames)


def _settings(optimizer):
    """All that a group has beside its parameters and its rate."""
    groups = optimizer.param_groups
    return [
        {key: plain(value) for key, value in group.items() if key not in _FREE}
        for group in groups
    ]


_FREE = ("params", "lr")


def _rate(optimizer, weight):
    groups = optimizer.param_groups
    inside = [g for g in groups if any(one is weight for one in g["params"])]
    return number_of(plain(inside[0]["lr"])) if inside else None


def _number(owner, name):
    return number_of(plain(getattr(owner, name, 0))) or 0.0


def _is_scheduler(value):
    own = isinstance(value, type | Optimizer)
    return not own and callable(getattr(value, "step", None))


def _kind(value):
    """What came back, in one word."""
    if _is_scheduler(value):
        return "scheduler"
    if isinstance(value, tuple | list | dict):
        inner = value.values() if isinstance(value, dict) else value
        return "several" if any(map(_is_scheduler, inner)) else "numbers"
    if isinstance(value, Optimizer | type):
        return "optimizer" if isinstance(value, Optimizer) else "class"
    if number_of(plain(value)) is not None or torch.is_tensor(value):
        return "numbers"
    if getattr(value, "__name__", "") == "step":
        return "method"
    return "function" if callable(value) else type(value).__name__


def _said(value):
    """What came back, without the address of an object."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or number_of(plain(value)) is not None or torch.is_tensor(value):
        return value
    if isinstance(value, tuple | list | dict):
        inner = list(value.values() if isinstance(value, dict) else value)
        numbers = all(number_of(plain(one)) is not None for one in inner)
        kinds = ", ".join(type(one).__name__ for one in inner[:4])
        return (
            value if numbers else f"a {type(value).__name__} of {len(inner)}: {kinds}"
        )
    return f"an object of type {type(value).__name__}"
