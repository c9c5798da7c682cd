"""Exercise 6.2, decided: the least steps of a training, and where its curve bends."""

import random
from collections.abc import Iterator

import numpy as np
import torch

from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.observe.e6_2 import observe
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
_EXACT = 1e-3  # relative error of a curve that runs through a point
_NAMES = ("least", "knee")
_NOT_A_PAIR = ("dict", "set", "frozenset", "str", "bytes")


def cases(seed: int) -> Iterator[Case]:
    """Four curves at once. Expected: least and knee by the fit of relative errors.

    Another seed multiplies all sizes, and all counts: its fits are as far apart.
    """
    numbers, curves = random.Random(seed), []
    for curve in _CURVES:
        points = list(curve.items())
        by, times = numbers.choices(range(2, 10), k=2) if seed else (1, 1)
        if seed:
            numbers.shuffle(points)
        curves.append({size * by: count * times for size, count in points})
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
    curves = [curve for [curve] in case.given["table"]]
    wheres = [
        f"curve {number}, {len(curve)} batch sizes from {min(curve)} to {max(curve)}"
        for number, curve in enumerate(curves, 1)
    ]
    asked = [f"{where}: find_knee" for where in wheres]
    pairs = pairs_of(rank["answers"], asked, _TEXTS.hint("pair"))
    rows = list(zip(map(_arrays, curves), pairs, case.expected))
    ratios = [
        {name: f / r for name, f, r in zip(_NAMES, found, right)}
        for _, found, right in rows
    ]
    off = [[name for name in one if abs(one[name] - 1) > CLOSE] for one in ratios]
    failed = [number for number, names in enumerate(off) if names]
    if failed:
        first = failed[0]
        which, (_, found, right) = off[first][0], rows[first]
        place = _NAMES.index(which)
        why, fill = _why([rows[number] for number in failed])
        raise _TEXTS.wrong(
            "other fit",
            why=why,
            clue={"curves": dict(enumerate(ratios))},
            where=wheres[first],
            which=which,
            returned=found[place],
            expected=right[place],
            **fill,
        )
    refuse_changed(rank["answers"], "Leave the curve as it is, others may need it")
    least, knee = case.expected[1]
    return (
        f"{len(rows)} curves: at batch size {knee:.0f} the second takes"
        f" {2 * least:.0f} steps, and never fewer than {least:.0f}"
    )


def pairs_of(answers: list, where: list[str], hint: str) -> list:
    """The two numbers of each answer.

    Errors: `Wrong` with this hint for the first one that is none, said `where`.
    """
    pairs = []
    for place, answer in zip(where, answers):
        parts = _parts(answer)
        pair = [number_of(part) for part in parts or ()]
        if len(pair) != 2 or None in pair:
            clue = {
                "kind": _kind(answer, parts),
                "length": None if parts is None else len(parts),
                "numbers": [number_of(one["returned"]) for one in answers],
            }
            fill = {"place": place, "returned": shown(answer["returned"])}
            raise _TEXTS.wrong("no pair", hint=hint, clue=clue, **fill)
        pairs.append(pair)
    return pairs


def _parts(answer):
    """What is in the returned list, tuple or vector; None if there is none."""
    value = answer["returned"]
    if isinstance(value, torch.Tensor) and value.dim() == 1:
        value = list(value)
    is_one = isinstance(value, list | tuple) and answer["type"] not in _NOT_A_PAIR
    return value if is_one else None


def _kind(answer, parts):
    """Text, a dict or a set, several or one number, nothing, or what has no number."""
    value = answer["returned"]
    if any(isinstance(one, str) for one in [value, *(parts or [])]):
        return "text"
    if parts is not None:
        bad = [part for part in parts if number_of(part) is None]
        floats = all(isinstance(part, float | torch.Tensor) for part in bad)
        return "several" if not bad else "not finite" if floats else "no numbers"
    if answer["type"] in _NOT_A_PAIR:
        return "unordered"
    return "number" if number_of(value) is not None else answer["type"]


def refuse_changed(answers: list, reason: str) -> None:
    """Refuse an answer that leaves another dictionary than it was given."""
    if any(answer["changed"] for answer in answers):
        raise _TEXTS.wrong("changed", reason=reason)


def _why(failed):
    """The name of the hint for fits that are wrong, and what it is filled in with."""
    (sizes, counts), found, right = failed[0]
    with np.errstate(all="ignore"):  # the numbers may be anything
        signs = [_signs(*row) for row in failed]
        errors = _errors(sizes, counts, found)
        worst = np.abs(errors).argmax()
        needed = (1 + errors[worst]) * counts[worst]
    knees = {knee for _, (_, knee), _ in failed}
    of_first = {
        "same knee": len(failed) > 1 and len(knees) == 1,
        "close": abs(errors[worst]) < CLOSE,
        "exact curve": np.abs(_errors(sizes, counts, right)).max() < _EXACT,
        "other curve": True,
    }
    names = [name for name in signs[0] if all(one[name] for one in signs)]
    names += [name for name, holds in of_first.items() if holds]
    fill = {"needed": needed, "size": sizes[worst], "measured": counts[worst]}
    return names[0], fill | {"knee": found[1]}


def _signs(points, found, right):
    """By the name of a hint if it is true of one wrong fit, the most telling first."""
    sizes, counts = points
    own, best = (_errors(sizes, counts, pair) for pair in (found, right))
    knee_is_measured = np.isclose(sizes, found[1]).any()
    ends = counts.min(), counts[sizes.argmax()]
    least_is_measured = np.isclose(ends, found[0]).any()
    smaller = np.square(own * counts).sum() < np.square(best * counts).sum()
    return {
        "both read off": knee_is_measured and least_is_measured,
        "knee read off": knee_is_measured,
        "least read off": least_is_measured,
        "absolute": smaller and np.square(own).sum() > 1.2 * np.square(best).sum(),
        "two points": (np.abs(own) < _EXACT).sum() == 2,
        "only the least": abs(found[0] / right[0] - 1) < CLOSE / 2,
    }


def _errors(sizes, counts, pair):
    """By how much fitted counts differ from the measured ones, relative to these."""
    least, knee = pair
    return least * (1 + knee / sizes) / counts - 1


EXERCISE = Exercise("6.2", observe, cases, judge, proof="least and knee of {}")
