"""Exercise 6.1, decided: a learning rate that rises with the batch, gradually."""

import random
import re
from collections.abc import Iterator
from functools import partial

from torch.optim import SGD, Adam

from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e6_1 import observe
from course_lib.exercises.values import shown
from course_lib.text import listed

_STAYS = 6  # updates after the warm-up
_TOLERANCE = 1e-4  # a share of the rate: room for float32, and for rounding
# k, warmup_steps (not 5, LinearLR's default), own rates, and the optimizer
_TRAININGS = (
    (8, 10, (0.1, 0.02), partial(SGD, momentum=0.9)),
    (2.5, 4, (0.003, 0.001, 0.01), Adam),
    (5, 1, (0.1, 0.02), partial(SGD, momentum=0.9)),
    (4, 0, (0.05, 0.2), Adam),
)


def cases(seed: int) -> Iterator[Case]:
    """Trainings of several parameter groups; the last one has no warm-up.

    Expected are the factors of the own rates by update.
    """
    for training in _drawn(random.Random(seed)) if seed else _TRAININGS:
        k, warmup_steps, own, optimizer = training
        given = {"k": k, "warmup_steps": warmup_steps, "own": own}
        updates = warmup_steps + _STAYS
        yield Case(
            given | {"optimizer": optimizer, "updates": updates},
            expected=_ramp(k, warmup_steps, updates),
        )


def _ramp(k, warmup_steps, updates):
    shares = [min(1, u / warmup_steps) if warmup_steps else 1 for u in range(updates)]
    return [1 + (k - 1) * share for share in shares]


def _drawn(numbers):
    lengths = (numbers.randint(6, 14), numbers.randint(2, 4), 1, 0)
    for number, warmup_steps in enumerate(lengths):
        rates = [0.3, 0.07, 0.011, 0.002]
        numbers.shuffle(rates)
        own = tuple(rates[: numbers.randint(2, 3)])
        optimizer = Adam if number % 2 else partial(SGD, momentum=0.9)
        yield numbers.choice((2.5, 3, 6.5, 7, 12)), warmup_steps, own, optimizer


def judge(case: Case, seen) -> str:
    """Compare the rate of every update in two trainings, then what else has changed."""
    [rank] = seen
    where = _where(case)
    for number, training in enumerate(rank["trainings"]):
        if training["kind"] == "raised":
            raise _raised(training["returned"], where)
        if training["kind"] != "scheduler":
            raise Wrong(
                f"make_scheduler returned {shown(training['returned'])}, expected a"
                " scheduler",
                "A scheduler is an object with a method step(), such as a LambdaLR.",
                clue={"kind": training["kind"]},
            )
        _refuse_steps(case, training, where)
        place = f"{where}, in a second training" if number else where
        _refuse_rates(case, training, place, again=number > 0)
        _refuse_settings(training, where)
    return str(case.given["warmup_steps"])


def _raised(error, where):
    """What a step of a scheduler raised, names and numbers left out of the clue."""
    return Wrong(
        f"{where}: the scheduler's step() raised {shown(error)}",
        "The loop calls scheduler.step() without arguments, after each update, for as"
        " long as the training goes on, and the rate is a number each time.",
        clue={"raised": re.sub(r"'.*?'|\d+|\S+\.(?=step)", "", str(error))},
    )


def _where(case):
    return f"k={case.given['k']}, warmup_steps={case.given['warmup_steps']}"


def _refuse_steps(case, training, where):
    if training["early"]:
        raise Wrong(
            f"{where}: make_scheduler took {training['early']} optimizer steps,"
            " expected 0",
            "make_scheduler only prepares: the training loop, which calls"
            " optimizer.step(), comes after it.",
        )
    if training["steps"] != case.given["updates"]:
        raise Wrong(
            f"{where}: the optimizer took {training['steps']} steps, expected"
            f" {case.given['updates']}",
            "The scheduler's step() changes rates and nothing else: it must not call"
            " optimizer.step().",
        )


def _differs(found, expected):
    # nan differs, too
    return found is None or not abs(found - expected) <= _TOLERANCE * abs(expected)


def _refuse_rates(case, training, where, *, again):
    own, expected = case.given["own"], case.expected
    groups = [
        [None if rate is None else rate / first for rate in rates]
        for rates, first in zip(training["rates"], own)
    ]
    for number, factors in enumerate(groups):
        pairs = list(zip(factors, expected))
        wrong = [u for u, pair in enumerate(pairs) if _differs(*pair)]
        if wrong:
            found, right = pairs[wrong[0]]
            said = "no number" if found is None else f"{found * own[number]:.4g}"
            inside = f" in parameter group {number}" if number else ""
            raise Wrong(
                f"{where}: update {wrong[0]} uses the rate {said}{inside}, expected"
                f" {right * own[number]:.4g}",
                _why_again(again) or _why(case, groups, number),
                clue={"again": again, "factors": dict(enumerate(groups))},
                also={"ahead": training["ahead"]},
            )


def _why_again(again):
    return again and (
        "The training before this one was right: something of yours goes on from call"
        " to call, such as a counter. Start it anew."
    )


def _why(case, groups, number):
    """The hint for the factors of a group, those before it are right."""
    k, warmup_steps = case.given["k"], case.given["warmup_steps"]
    found, expected = groups[number], case.expected
    if number:
        rates = case.given["own"]
        first = [factor * rates[0] / rates[number] for factor in expected]
        if not any(map(_differs, found, first)):
            return (
                "Both groups get the rate of the first. Each has a rate of its own, and"
                " k times that is where it ends."
            )
        return (
            "The rates of the first group are right. All groups have the same factor."
        )
    if None in found:
        return 'The rate of a group, group["lr"], must be one number.'
    if not warmup_steps:
        return (
            f"For warmup_steps=0 all updates, from 0 on, use k={k} times the own rate."
            f" The factors found are {_listed(found)}."
        )
    if not any(map(_differs, found, expected[1:])):
        return (
            "Everything comes one update early: update 0 still uses the own rate, so"
            " the first step() leads to update 1."
        )
    if not any(map(_differs, found[1:], expected)):
        return (
            "Everything comes one update late: the first step() already prepares"
            " update 1."
        )
    return _why_shape(found, expected, warmup_steps)


def _why_shape(found, expected, warmup_steps):
    """The hint for a ramp by its foot, its top, what follows, and its steps."""
    if not any(map(_differs, found[: warmup_steps + 1], expected)):
        return (
            "The warm-up is right, but after it the rate goes on to change. It stays at"
            f" k times the own one; the factors after it are"
            f" {_listed(found[warmup_steps:])}."
        )
    ends = [u for u in (0, warmup_steps) if _differs(found[u], expected[u])]
    if ends:
        told = " and ".join(
            f"{found[u]:.4g} in update {u}, expected {expected[u]:.4g}" for u in ends
        )
        return f"The factor of the own rate is {told}. Between, it rises evenly."
    return (
        "Start and end are right, but not by equal amounts: from update to update"
        " the same number is added, (k - 1) / warmup_steps of the own rate. The factors"
        f" found are {_listed(found[: warmup_steps + 1])}."
    )


def _listed(factors):
    return listed(f"{factor:.4g}" for factor in factors)


def _refuse_settings(training, where):
    settings = training["settings"]
    for before, after in zip(settings["before"], settings["after"]):
        for name, value in before.items():
            if after.get(name) != value:
                raise Wrong(
                    f"{where}: the optimizer's {name} is {shown(after.get(name))}, it"
                    f" was {shown(value)}",
                    "The rates are right, and nothing else may change. CyclicLR and"
                    " OneCycleLR move the momentum, too, unless they get"
                    " cycle_momentum=False.",
                )


def failed(case: Case, wrong: Wrong) -> str:
    """The hint for a division by zero depends on the length of the warm-up."""
    if "division by zero" in str(wrong) or "divide by zero" in str(wrong):
        wrong.hint = (
            "The warm-up may be of a single update, too: does your denominator become 0"
            " then?"
            if case.given["warmup_steps"]
            else "Nothing can be divided by warmup_steps=0: it needs a branch of its"
            " own."
        )
    raise wrong


EXERCISE = Exercise(
    "6.1",
    observe,
    cases,
    judge,
    proof="the rates of all parameter groups, with SGD and Adam, for warmup_steps={}",
    failed=failed,
)
