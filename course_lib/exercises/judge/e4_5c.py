"""Exercise 4.5c, decided: a mean loss that all ranks know and rank 0 prints."""

import random
import re
from collections.abc import Iterator

from course_lib.exercises.compare import near
from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.observe.e4_5c import observe
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown

_TEXTS = Texts("4.5c")
_CLOSE = 1e-5  # of a mean in 32 bits
_PRINTED = 6e-4  # of a number with three digits
# neither whole nor with few digits; the largest belongs to no rank at an end
_LOSSES = ((1.2254, 2.6371, 0.6829), (0.7127, 1.8736))


def cases(seed: int) -> Iterator[Case]:
    """Three ranks and two, or two draws of up to five; expected is the mean."""
    for losses in _LOSSES if not seed else _drawn(random.Random(seed)):
        mean = sum(losses) / len(losses)
        yield Case({"losses": losses}, world_size=len(losses), expected=mean)


def _drawn(numbers):
    for ranks in numbers.sample((2, 3, 4, 5), 2):
        losses = [round(numbers.uniform(0.2, 3), 4) for _ in range(ranks)]
        while not 1e-4 < _rounding(sum(losses) / ranks) < 4e-4:
            losses[0] = round(losses[0] + 1e-4, 4)  # until three digits are not enough
        yield tuple(losses)


def _rounding(mean):
    return abs(round(mean, 3) - mean)


def judge(case: Case, seen) -> str:
    """Look at what each rank returned, at its loss, and at what it printed."""
    losses, ranks = case.given["losses"], case.world_size
    _judge_returned([result["returned"] for result in seen], losses, case.expected)
    for rank, (result, loss) in enumerate(zip(seen, losses)):
        fill = {"rank": rank, "ranks": ranks, "loss": loss, "after": result["loss"]}
        if not near(result["loss"], loss, _CLOSE):
            raise _TEXTS.wrong("loss changed", **fill)
        if not result["backward"]:
            raise _TEXTS.wrong("no backward", **fill)
    _judge_printed([result["printed"] for result in seen], losses, case.expected)
    return str(ranks)


def _judge_returned(returned, losses, mean):
    found = list(map(number_of, returned))
    for rank, number in enumerate(found):
        if near(number, mean, _CLOSE):
            continue
        name = _named(number, losses, most=_CLOSE)
        if number is None:
            why = "no number"
        elif name:
            why = "all return" if len(set(found)) == 1 else "one returns"
        else:
            why = "rounded" if near(number, mean, _PRINTED) else "add up"
        raise _TEXTS.wrong(
            "returned",
            why=why,
            clue={"returned": found},
            rank=rank,
            ranks=len(losses),
            returned=shown(returned[rank]) if number is None else f"{number:.4f}",
            mean=mean,
            number=name,
        )


def _judge_printed(printed, losses, mean):
    ranks, right = len(losses), f"{mean:.3f}"
    for rank in range(1, ranks):
        # other lines are no fault
        if right in printed[rank] or "mean loss" in printed[rank]:
            raise _TEXTS.wrong("others print", rank=rank, ranks=ranks)
    if right in printed[0]:
        return
    numbers = [float(text) for text in re.findall(r"\d+\.\d{3,}", printed[0])]
    names = [_named(number, losses, most=_PRINTED) for number in numbers]
    name = next(filter(None, names), None)
    if any(near(number, mean / ranks, _PRINTED) for number in numbers):
        why = "divided twice"
    else:
        why = "other number" if name else "keep the line"
    raise _TEXTS.wrong(
        "printed",
        why=why,
        clue={"printed": numbers},
        ranks=ranks,
        printed=printed[0].strip()[:60],
        mean=mean,
        number=name,
    )


def _named(number, losses, *, most):
    """What a number is of these losses, in words, or None."""
    ranks, whole = len(losses), sum(map(int, losses))
    values = [("the sum of all losses", sum(losses))]
    for rank, loss in enumerate(losses):
        largest = "the largest loss, {}," if loss == max(losses) else "{}"
        values.append((largest.format(f"rank {rank}'s own loss"), loss))
    values.append(("the sum of all losses, each cut to a whole number,", whole))
    for name, value in values:
        for divisor in (1, ranks, 2, 4, ranks**2):
            if number is not None and near(number * divisor, value, most * divisor):
                divided = f"{name} divided by {divisor}"
                return divided if divisor > 1 else name.strip(",")
    return None


def failed(case: Case, wrong):
    """Tell of collectives that not all ranks reach."""
    if wrong.error.kind in ("lost", "stalled"):
        wrong.hint = _TEXTS.hint("only rank 0")
        wrong.clue = None  # the words differ by who gives up first
    raise wrong


EXERCISE = Exercise(
    "4.5c",
    observe,
    cases,
    judge,
    proof="{} ranks: each has the mean, rank 0 alone prints it, and backward works on"
    " every loss as before",
    failed=failed,
)
