"""Exercise 6.1, decided: a learning rate that rises with the batch, gradually."""

import random
import re
from collections.abc import Iterator
from functools import partial

from torch.optim import SGD, Adam

from course_lib.exercises.compare import near
from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import listed

_TEXTS = Texts("6.1")
_STAYS = 6  # updates after the warm-up
_TOLERANCE = 1e-4  # a share of the rate: room for float32, and for rounding
_MOMENTUM = partial(SGD, momentum=0.9)
# k, warmup_steps (not 5, LinearLR's default), own rates, and the optimizer
_TRAININGS = (
    (8, 10, [0.1, 0.02], _MOMENTUM),
    (2.5, 4, [0.003, 0.001, 0.01], Adam),
    (5, 1, [0.1, 0.02], _MOMENTUM),
    (4, 0, [0.05, 0.2], Adam),
)


def cases(seed: int) -> Iterator[Case]:
    """Yield trainings of several parameter groups; the last one has no warm-up.

    Expected are the factors of the own rates by update.
    """
    numbers = random.Random(seed)
    for k, length, own, optimizer in _TRAININGS:
        if seed:
            k = numbers.choice((2.5, 3, 6.5, 7, 12))
            length -= numbers.randint(0, length // 3)
            own = numbers.sample((0.3, 0.07, 0.011, 0.002), len(own))
        factors = [1 + (k - 1) * u / length for u in range(length)] + [k] * _STAYS
        given = {"k": k, "warmup_steps": length, "own": own, "optimizer": optimizer}
        yield Case(given | {"updates": len(factors)}, expected=factors)


def judge(case: Case, seen) -> str:
    """Compare the rate of every update in two trainings, then what else has changed."""
    [rank] = seen
    for number, training in enumerate(rank["trainings"]):
        _refuse_steps(case.given, training)
        _refuse_rates(case, training, again=number > 0)
        _refuse_settings(case.given, training["settings"])
    return str(case.given["warmup_steps"])


def _refuse_steps(given, training):
    """Refuse what is no scheduler, and one that does not leave steps to the loop."""
    fill = given | training | {"returned": shown(training["returned"])}
    if training["kind"] == "raised":
        # names and numbers are left out
        raised = re.sub(r"'.*?'|\d+|\S+\.(?=step)", "", str(training["returned"]))
        raise _TEXTS.wrong("raised", clue={"raised": raised}, **fill)
    if training["kind"] != "scheduler":
        clue = {"kind": training["kind"]}
        raise _TEXTS.wrong("no scheduler", clue=clue, **fill)
    updates, early, steps = given["updates"], training["early"], training["steps"]
    facts = (
        ("early steps", [early], 0, 0, 0),
        ("more steps", [steps], updates, updates, updates),
    )
    _TEXTS.refuse(facts, **given)


def _refuse_rates(case, training, *, again):
    own = case.given["own"]
    groups = [
        [None if rate is None else rate / first for rate in rates]
        for rates, first in zip(training["rates"], own)
    ]
    for number, found in enumerate(groups):
        update = _first_wrong(found, case.expected)
        if update is not None:
            rate = _said(training["rates"][number][update])
            why, other = _why(training["rates"], own, number)
            raise _TEXTS.wrong(
                "rate of a second training" if again else "rate",
                why="" if again else why,
                clue={"again": again, "factors": dict(enumerate(groups))},
                also={"ahead": training["ahead"]},
                update=update,
                rate=f"{rate} in parameter group {number}" if number else rate,
                expected=case.expected[update] * own[number],
                factors=listed(map(_said, found)),
                number=number,
                other=other,
                **case.given,
            )


def _why(rates, own, number):
    """The name of a hint for a group's rates, and which group before it they follow."""
    for other in range(number):
        rise = [rate - own[other] + own[number] for rate in rates[other]]
        if _first_wrong(rates[number], rise) is None:
            return "rise of another", other
        if near(rates[number][-1], rates[other][-1], _TOLERANCE * own[number]):
            return "end of another", other
    return "factors", 0


def _first_wrong(found, expected):
    """The first update whose factor is not the expected one, or None."""
    pairs = enumerate(zip(found, expected))
    wrong = (u for u, (one, two) in pairs if not near(one, two, _TOLERANCE * two))
    return next(wrong, None)


def _said(number):
    return "no number" if number is None else f"{number:.4g}"


def _refuse_settings(given, settings):
    for before, after in zip(settings["before"], settings["after"]):
        for name, value in before.items():
            if after.get(name) != value:
                changed = {"before": shown(value), "after": shown(after.get(name))}
                raise _TEXTS.wrong("setting", setting=name, **changed, **given)


def failed(case: Case, wrong: Wrong) -> str:
    """Give a division by zero the hint for the length of the warm-up."""
    if re.search("(division|divide) by zero", str(wrong)):
        why = "one update" if case.given["warmup_steps"] else "no updates"
        wrong.hint = _TEXTS.hint(why)
    raise wrong
