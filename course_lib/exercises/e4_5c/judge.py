"""Exercise 4.5c, decided: a mean loss that all ranks know and rank 0 prints."""

import random
import re
from collections.abc import Iterator

from course_lib.exercises.compare import near
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed

_TEXTS = Texts("4.5c")
_CLOSE = 1e-5  # of a mean in 32 bits
# neither whole nor with few digits; the largest belongs to no rank at an end
_LOSSES = ((1.2254, 2.6371, 0.6829), (0.7127, 1.8736))


def cases(seed: int) -> Iterator[Case]:
    """Yield three ranks and two, or two draws of up to five; expected is the mean."""
    for losses in _LOSSES if not seed else _drawn(random.Random(seed)):
        mean = sum(losses) / len(losses)
        yield Case({"losses": losses}, world_size=len(losses), expected=mean)


def _drawn(numbers):
    for ranks in numbers.sample((2, 3, 4, 5), 2):
        losses, rest = (), 0.0
        while not 1e-4 < rest < 4e-4:  # until three digits are not enough
            losses = tuple(round(numbers.uniform(0.2, 3), 4) for _ in range(ranks))
            rest = abs(round(sum(losses) / ranks, 3) - sum(losses) / ranks)
        yield losses


def judge(case: Case, seen) -> str:
    """Look at what each rank returned, at its loss, and at what it printed."""
    losses, ranks = case.given["losses"], case.world_size
    _TEXTS.refuse([("not waited", [one["open"] for one in seen], 0, 0, 0)])
    _judge_returned([result["returned"] for result in seen], losses, case.expected)
    for rank, (result, loss) in enumerate(zip(seen, losses)):
        fill = {"rank": rank, "ranks": ranks, "loss": loss, "after": result["loss"]}
        if not near(result["loss"], loss, _CLOSE):
            raise _TEXTS.wrong("loss changed", **fill)
        if not result["backward"]:
            raise _TEXTS.wrong("no backward", **fill)
    _judge_printed([result["printed"] for result in seen], case.expected)
    _judge_again([result["again"] for result in seen], 2 * case.expected)
    return str(ranks)


def _judge_again(returned, mean):
    """Look at what each rank returned of twice the losses, in a second call."""
    for rank, value in enumerate(returned):
        if not near(number_of(value), mean, 2 * _CLOSE):
            fill = {"rank": rank, "ranks": len(returned), "mean": mean}
            raise _TEXTS.wrong("again", returned=shown(value), **fill)


def _judge_returned(returned, losses, mean):
    found = list(map(number_of, returned))
    if all(near(number, mean, _CLOSE) for number in found):
        return
    told = [
        shown(value) if number is None else f"{number:.4f}"
        for value, number in zip(returned, found)
    ]
    rank = next(i for i, one in enumerate(found) if not near(one, mean, _CLOSE))
    fill = {"losses": listed(losses), "told": listed(told), "returned": told[rank]}
    where = {"rank": rank, "ranks": len(losses)}
    raise _TEXTS.wrong("returned", clue={"returned": found}, mean=mean, **fill, **where)


def _judge_printed(printed, mean):
    first, *others = printed
    ranks, right = len(printed), f"{mean:.3f}"
    for rank, text in enumerate(others, start=1):
        # other lines are no fault
        if right in text or "mean loss" in text:
            raise _TEXTS.wrong("others print", rank=rank, ranks=ranks)
    if not re.search(rf"(?<![\d.]){re.escape(right)}(?!\d)", first):
        numbers = [float(text) for text in re.findall(r"\d+\.\d{3,}", first)]
        fill = {"ranks": ranks, "printed": first.strip()[:60], "mean": mean}
        raise _TEXTS.wrong("printed", clue={"printed": numbers}, **fill)


def failed(case: Case, wrong):
    """Tell of collectives that not all ranks reach."""
    if wrong.error.kind in ("lost", "stalled"):
        wrong.hint = _TEXTS.hint("only rank 0")
        wrong.clue = None  # the words differ by who gives up first
    raise wrong
