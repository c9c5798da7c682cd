"""Exercise 6.1: a learning rate that rises with the batch, gradually."""

import torch
from torch.optim import SGD, Optimizer

from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import number_of
from course_lib.exercises.stages.stage06.warming_up_errors import (
    why_failed,
    why_no_scheduler,
)
from course_lib.exercises.stages.stage06.warming_up_mistakes import (
    differs,
    rates,
    why_rates,
)
from course_lib.exercises.stages.stage06.warming_up_ramps import OWN
from course_lib.text import short

# k and warmup_steps; not 5 of these, which is LinearLR's default
_CASES = ((8, 10), (2.5, 4), (5, 1), (4, 0))
_STAYS = 6  # updates after the warm-up
_MOMENTUM = 0.9


def check_scheduler(attempt: Attempt) -> str:
    """Compare the rate of every update of two parameter groups, in four trainings."""
    [trainings] = attempt(_trained, *_CASES, world_size=1, why=why_failed)
    for case, seen in zip(_CASES, trainings):
        where = f"k={case[0]}, warmup_steps={case[1]}"
        if "returned" in seen:
            raise Wrong(
                f"make_scheduler returned {seen['returned']}, expected a scheduler",
                why_no_scheduler(seen["kind"]),
            )
        if "error" in seen:
            raise Wrong(
                f"{where}: {seen['error']}, expected the rate {case[0] * OWN[0]:.4g} in"
                " every update",
                "Nothing can be divided by warmup_steps=0: it needs a branch of its"
                " own.",
            )
        _refuse_steps(seen, where)
        _judge(seen, case, where)
        _refuse_momentum(seen, where)
    lengths = ", ".join(str(warmup_steps) for _, warmup_steps in _CASES)
    return f"the rates of two parameter groups, for warmup_steps={lengths}"


def _trained(rank, world_size, answer, /, *cases):
    return [_updates(answer, *case) for case in cases]


def _updates(answer, k, warmup_steps):
    """What the answer gives back, else the rates that each update really uses."""
    weights = [torch.nn.Parameter(torch.zeros(2)) for _ in OWN]
    # as one writes it: the first group has the default, the second one its own rate
    groups = [{"params": weights[:1]}, {"params": weights[1:], "lr": OWN[1]}]
    optimizer = SGD(groups, lr=OWN[0], momentum=_MOMENTUM)
    steps, used = [], []
    optimizer.register_step_pre_hook(lambda *_: steps.append(1))
    try:
        scheduler = answer(optimizer, k, warmup_steps)
        if not _is_scheduler(scheduler):
            return {"returned": _said(scheduler), "kind": _kind(scheduler)}
        early, ahead = len(steps), getattr(scheduler, "last_epoch", 0)
        # after the answer, whose own hooks may set the rate
        optimizer.register_step_pre_hook(
            lambda *_: used.append([_rate(optimizer, weight) for weight in weights])
        )
        for _ in range(warmup_steps + _STAYS):
            optimizer.step()
            scheduler.step()
    except ZeroDivisionError as error:
        if warmup_steps:
            raise
        return {"error": f"ZeroDivisionError: {error}"}
    momentum = [number_of(group["momentum"]) or 0.0 for group in optimizer.param_groups]
    seen = {"early": early, "steps": len(steps) - early, "used": used}
    seen |= {"updates": warmup_steps + _STAYS, "momentum": momentum}
    return seen | {"ahead": number_of(ahead) or 0}


def _is_scheduler(value):
    own = isinstance(value, (type, Optimizer))
    return not own and callable(getattr(value, "step", None))


def _rate(optimizer, weight):
    """The number of the rate of one weight (None if it is none) and how it looks."""
    groups = optimizer.param_groups
    inside = [g for g in groups if any(one is weight for one in g["params"])]
    rate = inside[0]["lr"] if inside else None
    return number_of(rate), str(rate)[:60]


def _kind(value):
    """What came back in place of a scheduler, in one word."""
    if value is None:
        return "nothing"
    if isinstance(value, Optimizer):
        return "optimizer"
    if isinstance(value, type):
        return "class"
    if isinstance(value, (tuple, list, dict)):
        inner = value.values() if isinstance(value, dict) else value
        return "several" if any(map(_is_scheduler, inner)) else "numbers"
    if number_of(value) is not None or torch.is_tensor(value):
        return "numbers"
    if getattr(value, "__name__", "") == "step":
        return "method"
    return "function" if callable(value) else "other"


def _said(value):
    """What came back, without the address of an object."""
    if isinstance(value, (tuple, list, dict)):
        inner = list(value.values() if isinstance(value, dict) else value)
        if all(number_of(one) is not None for one in inner):
            return short(value)
        kinds = ", ".join(type(one).__name__ for one in inner[:4])
        return f"a {type(value).__name__} of {len(inner)}: {kinds}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or number_of(value) is not None or hasattr(value, "shape"):
        return short(value)
    return f"an object of type {type(value).__name__}"


def _refuse_steps(seen, where):
    if seen["early"]:
        raise Wrong(
            f"{where}: make_scheduler took {seen['early']} optimizer"
            f" step{'s' * (seen['early'] > 1)}, expected none",
            "make_scheduler only prepares: the training loop, which calls"
            " optimizer.step(), comes after it.",
        )
    if seen["steps"] != seen["updates"]:
        raise Wrong(
            f"{where}: the optimizer took {seen['steps']} steps in"
            f" {seen['updates']} updates",
            "The scheduler's step() changes rates and nothing else: it must not call"
            " optimizer.step().",
        )


def _judge(seen, case, where):
    # the first group before the second: the hint looks at it first, too
    for group, own in enumerate(OWN):
        expected = rates(case, seen["updates"], own)
        for update, (groups, right) in enumerate(zip(seen["used"], expected)):
            found, said = groups[group]
            if differs(found, right):
                number = said if found is None else f"{found:.4g}"
                inside = f" in parameter group {group}" if group else ""
                raise Wrong(
                    f"{where}: update {update} uses the rate {number}{inside},"
                    f" expected {right:.4g}",
                    why_rates(seen, case),
                )


def _refuse_momentum(seen, where):
    for found in seen["momentum"]:
        if differs(found, _MOMENTUM):
            raise Wrong(
                f"{where}: the optimizer's momentum is {found:.4g}, it was {_MOMENTUM}",
                "The rates are right. CyclicLR and OneCycleLR move the momentum, too,"
                " unless they get cycle_momentum=False.",
            )
