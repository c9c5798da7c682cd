"""Exercise 4.5c, decided: a mean loss that all ranks know and rank 0 prints."""

import random
import re
from collections.abc import Iterator

from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e4_5c import observe
from course_lib.exercises.values import number_of, shown

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
        while (
            not 1e-4 < abs(round(sum(losses) / ranks, 3) - sum(losses) / ranks) < 4e-4
        ):
            losses[0] = round(losses[0] + 1e-4, 4)  # until three digits are not enough
        yield tuple(losses)


def judge(case: Case, seen) -> str:
    """Look at what each rank returned, at its loss, and at what it printed."""
    losses, mean, ranks = case.given["losses"], case.expected, case.world_size
    found = [number_of(result["returned"]) for result in seen]
    for rank, number in enumerate(found):
        if number is None or abs(number - mean) > _CLOSE:
            told = shown(seen[rank]["returned"]) if number is None else f"{number:.4f}"
            raise Wrong(
                f"rank {rank} of {ranks} returned {told}, expected {mean:.4f}, the mean"
                " over all ranks",
                _why_other(number, found, losses),
                clue={"returned": found},
            )
    for rank, result in enumerate(seen):
        _refuse_other_loss(result, losses[rank], where=f"rank {rank} of {ranks}")
    _refuse_other_prints([result["printed"] for result in seen], losses, mean)
    return str(ranks)


def _why_other(number, found, losses):
    """The hint for what ranks `found`, of which `number` is the first wrong one."""
    if number is None:
        return "Every rank returns the mean as a number, not rank 0 alone, and no text."
    name = _named(number, losses, most=_CLOSE)
    if name:
        who = "Every rank" if len(set(found)) == 1 else "It"
        return f"{who} returned {name}. Every rank needs the mean of all losses."
    if abs(number - sum(losses) / len(losses)) < _PRINTED:
        return "This is nearly right. Is it rounded? Only what is printed has 3 digits."
    return (
        "Add up the losses of all ranks, as they are, and divide by world_size. Every"
        " rank needs the result: all_reduce gives it to all, reduce to one."
    )


def _named(number, losses, *, most):
    """What a number is of these losses, in words, or None."""
    ranks, whole = len(losses), sum(map(int, losses))
    values = {"the sum of all losses": sum(losses)}
    values |= {f"rank {rank}'s own loss": loss for rank, loss in enumerate(losses)}
    values |= {"the sum of all losses, each cut to a whole number,": whole}
    for name, value in values.items():
        if name.startswith("rank") and value == max(losses):
            name = f"the largest loss, {name},"
        for divisor in (1, ranks, 2, 4, ranks**2):
            if abs(number * divisor - value) <= most * divisor:
                return (
                    f"{name} divided by {divisor}" if divisor > 1 else name.strip(",")
                )
    return None


def _refuse_other_loss(result, loss, *, where):
    if not abs(result["loss"] - loss) <= _CLOSE:
        raise Wrong(
            f"the loss of {where} was {loss:.4f} and is now {result['loss']:.4f}",
            "all_reduce writes into the tensor that it is given, and so does each"
            " operation on detach() or .data: they share its memory. Give it a copy:"
            " loss.detach().clone().",
        )
    if not result["backward"]:
        raise Wrong(
            f"on {where} backward fails after this function",
            "`loss` must stay as it is, with its graph: backward comes later, once."
            " Call neither backward nor detach_() here.",
        )


def _refuse_other_prints(printed, losses, mean):
    ranks = len(printed)
    for rank in range(1, ranks):
        # other lines are no fault
        if f"{mean:.3f}" in printed[rank] or "mean loss" in printed[rank]:
            raise Wrong(
                f"rank {rank} of {ranks} printed the loss, expected rank 0 alone",
                "Printing is what belongs under `if rank == 0`; the all-reduce does"
                " not.",
            )
    if f"{mean:.3f}" not in printed[0]:
        numbers = [float(text) for text in re.findall(r"\d+\.\d{3,}", printed[0])]
        raise Wrong(
            f"rank 0 of {ranks} printed {printed[0].strip()[:60]!r}, expected the mean"
            f" loss {mean:.3f}",
            _why_print(numbers, losses, mean),
            clue={"printed": numbers},
        )


def _why_print(numbers, losses, mean):
    twice = mean / len(losses)
    if any(abs(number - twice) < _PRINTED for number in numbers):
        return (
            "Here the printed number is divided by world_size once more: what the ranks"
            " return is the mean already."
        )
    names = [_named(number, losses, most=_PRINTED) for number in numbers]
    if any(names):
        return f"This prints {next(filter(None, names))}: print the mean."
    return "Rank 0 prints the mean with three digits: keep the line of the original."


def failed(case: Case, wrong):
    """Tell of collectives that not all ranks reach."""
    if wrong.error.kind in ("lost", "stalled"):
        wrong.hint = (
            "A collective under `if rank == 0`, or after a `return` of the others: only"
            " rank 0 calls it, and waits for the others for ever. All ranks make the"
            " call, rank 0 prints."
        )
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
