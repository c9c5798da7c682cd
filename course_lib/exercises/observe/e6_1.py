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
    before, steps, used = _settings(optimizer), [], []
    optimizer.register_step_pre_hook(lambda *_: steps.append(1))
    scheduler = answer(optimizer, given["k"], given["warmup_steps"])
    kind, said = _told(scheduler)
    found = {"returned": plain(said), "kind": kind}
    if kind != "scheduler":
        return found
    ahead = _number(getattr(scheduler, "last_epoch", 0)) or 0.0
    found |= {"early": len(steps), "ahead": ahead}

    def note(*_):
        used.append([_rate(optimizer, weight) for weight in weights])

    optimizer.register_step_pre_hook(note)  # after hooks of the answer
    try:
        for _ in range(given["updates"]):
            optimizer.step()
            scheduler.step()
    except Exception as error:
        if _is_in_a_line_of_the_answer(error):
            raise  # with the line that it was in
        raised = f"{type(error).__name__}: {error}"
        return found | {"kind": "raised", "returned": raised}
    return found | {
        "rates": [[rates[group] for rates in used] for group in range(len(weights))],
        "steps": len(steps) - found["early"],
        "settings": {"before": before, "after": _settings(optimizer)},
    }


def _is_in_a_line_of_the_answer(error):
    frames = traceback.extract_tb(error.__traceback__)
    return any(is_learners(Frame(f.filename, f.lineno, f.name)) for f in frames)


def _settings(optimizer):
    """All that each group has beside its parameters and its rate."""
    return [
        {key: plain(group[key]) for key in group if key not in ("params", "lr")}
        for group in optimizer.param_groups
    ]


def _rate(optimizer, weight):
    for group in optimizer.param_groups:
        if any(one is weight for one in group["params"]):
            return _number(group["lr"])
    return None


def _number(value):
    return number_of(plain(value))


def _is_scheduler(value):
    own = isinstance(value, type | Optimizer)
    return not own and callable(getattr(value, "step", None))


def _told(value):
    """What came back in one word, and as it is said: without an object's address."""
    name = type(value).__name__
    said = f"an object of type {name}"
    if _is_scheduler(value):
        return "scheduler", said
    if isinstance(value, type):
        return "class", f"the class {value.__name__}"
    if isinstance(value, Optimizer):
        return "optimizer", said
    if value is None or torch.is_tensor(value) or _number(value) is not None:
        return name if value is None else "numbers", value
    if isinstance(value, tuple | list | dict):
        inside = list(value.values() if isinstance(value, dict) else value)
        kinds = ", ".join(type(one).__name__ for one in inside[:4])
        numbers = None not in map(_number, inside)
        return (
            "several" if any(map(_is_scheduler, inside)) else "numbers",
            value if numbers else f"a {name} of {len(inside)}: {kinds}",
        )
    if getattr(value, "__name__", "") == "step":
        return "method", said
    return "function" if callable(value) else name, said
