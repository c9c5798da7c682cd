"""Exercise 6.2, decided: the least steps of a training, and where its curve bends."""

import random
from collections.abc import Iterator

import numpy as np
import torch

from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown

_TEXTS = Texts("6.2")
CLOSE = 0.1  # relative: fits that make relative errors small differ by 0.06 at most
# steps by batch size: the first exact, then with errors of a few per cent. The second
# is 26 % off in a fit whose errors are weighed too little, or too much (by the root of
# the steps, or their square), in the third two points tell nothing, nor do examples,
# size times steps, in the fourth
_CURVES = (
    {16: 7936, 32: 4096, 64: 2176, 128: 1216, 256: 736}
    | {512: 496, 1024: 376, 2048: 316, 4096: 286},
    {2048: 1084, 256: 5523, 8: 147483, 128: 10465, 16: 74736, 64: 20262}
    | {512: 2998, 1024: 1787, 32: 40243},
    {800: 4656, 1000: 4328, 1500: 3590, 2000: 3484, 3000: 2933}
    | {50: 39423, 100: 19076, 200: 10936, 300: 8293, 500: 5981},
    {8: 15467, 16: 7948, 32: 4598, 64: 2758, 128: 2011, 256: 1648}
    | {512: 1409, 1024: 1283, 2048: 1259, 4096: 1292},
)
_NAMES = ("least", "knee")
_NOT_A_PAIR = ("dict", "set", "frozenset", "str", "bytes")


def cases(seed: int) -> Iterator[Case]:
    """Yield four curves at once. Expected: least and knee of the relative fit.

    Another seed multiplies all sizes, and all counts: its fits are as far apart.
    """
    numbers, curves = random.Random(seed), []
    for curve in _CURVES:
        by, times = numbers.choices(range(2, 10), k=2) if seed else (1, 1)
        curves.append({size * by: count * times for size, count in curve.items()})
    expected = [_fitted(*_arrays(curve)) for curve in curves]
    yield Case({"table": [(curve,) for curve in curves]}, expected=expected)


def _fitted(sizes, counts):
    slope, least = np.polyfit(1 / sizes, counts, 1, w=1 / counts)
    return least, slope / least


def _arrays(curve):
    return np.array(list(curve), float), np.array(list(curve.values()), float)


def judge(case: Case, seen) -> str:
    """Compare both numbers of each curve with those of a fit of relative errors."""
    [rank] = seen
    wheres = [
        f"curve {number}, {len(curve)} batch sizes from {min(curve)} to {max(curve)}"
        for number, [curve] in enumerate(case.given["table"], 1)
    ]
    asked = [f"{where}: find_knee" for where in wheres]
    pairs = pairs_of(rank["answers"], asked, _TEXTS.hint("pair"))
    ratios = [
        {name: one / other for name, one, other in zip(_NAMES, found, right)}
        for found, right in zip(pairs, case.expected)
    ]
    for [curve], *row, ratio, where in zip(
        case.given["table"], pairs, case.expected, ratios, wheres
    ):
        clue = {"curves": dict(enumerate(ratios))}
        _refuse_other(_arrays(curve), row, ratio, where=where, clue=clue)
    refuse_changed(rank["answers"], "Leave the curve as it is, others may need it")
    least, knee = case.expected[1]
    return (
        f"{len(wheres)} curves: at batch size {knee:.0f} the second takes"
        f" {2 * least:.0f} steps, and never fewer than {least:.0f}"
    )


def _refuse_other(points, row, ratio, **fill):
    """Refuse the first number of a pair that is not that of the fit."""
    for which, found, right in zip(_NAMES, *row):
        if abs(ratio[which] - 1) > CLOSE:
            fill |= {"which": which, "returned": found, "expected": right}
            raise _TEXTS.wrong("other fit", **fill, **_why(points, *row))


def _why(points, found, right):
    """The name of the hint for a wrong fit, and what it is filled in with."""
    sizes, counts = points
    with np.errstate(all="ignore"):  # the numbers may be anything
        fitted = found[0] * (1 + found[1] / sizes)
        worst = np.abs(fitted / counts - 1).argmax()
    read_off = np.isclose(counts, found[0]).any() or np.isclose(sizes, found[1]).any()
    only_least = abs(found[0] / right[0] - 1) < CLOSE
    why = "read off" if read_off else "only the least" if only_least else "other curve"
    fill = {"needed": fitted[worst], "size": sizes[worst], "measured": counts[worst]}
    return fill | {"why": why}


def pairs_of(answers: list, where: list[str], hint: str) -> list:
    """Return the two numbers of each answer.

    Errors: `Wrong` with this hint for the first one that is none, said `where`.
    """
    pairs = []
    for place, answer in zip(where, answers):
        parts = parts_of(answer)
        pair = [number_of(part) for part in parts or ()]
        if len(pair) != 2 or None in pair:
            clue = {
                # neither has an order
                "type": "set" if answer["type"] == "dict" else answer["type"],
                "floats": sum(isinstance(part, float) for part in parts or ()),
                "length": None if parts is None else len(parts),
                "numbers": [number_of(one["returned"]) for one in answers],
            }
            fill = {"place": place, "returned": shown(answer["returned"])}
            raise _TEXTS.wrong("no pair", hint=hint, clue=clue, **fill)
        pairs.append(pair)
    return pairs


def parts_of(answer: dict):
    """Return what is in the returned list, tuple or vector; None if there is none."""
    value = answer["returned"]
    if isinstance(value, torch.Tensor) and value.dim() == 1:
        value = list(value)
    is_one = isinstance(value, list | tuple) and answer["type"] not in _NOT_A_PAIR
    return value if is_one else None


def refuse_changed(answers: list, reason: str) -> None:
    """Refuse an answer that leaves another dictionary than it was given."""
    if any(answer["changed"] for answer in answers):
        raise _TEXTS.wrong("changed", reason=reason)
