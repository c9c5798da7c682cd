"""Exercise 6.2, decided: the least steps of a training, and where its curve bends."""

import functools
import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e6_2 import observe
from course_lib.exercises.values import number_of, shown

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
_FAR = 0.14  # by how much a curve tells a wrong fit from a right one, at least
_NEAR = 0.06  # two right fits
_EXACT = 1e-3  # relative error of a curve that runs through a point
_NOT_A_PAIR = ("dict", "set", "frozenset", "str", "bytes")


def cases(seed: int) -> Iterator[Case]:
    """Four curves at once. Expected: least and knee by the fit of relative errors."""
    curves = _drawn(seed) if seed else _CURVES
    expected = [fitted(*_arrays(curve)) for curve in curves]
    yield Case({"table": [(curve,) for curve in curves]}, expected=expected)


def fitted(sizes: np.ndarray, counts: np.ndarray, power: float = -1.0) -> tuple:
    """Least steps and knee; each error is weighed by this power of its count."""
    slope, least = np.polyfit(1 / sizes, counts, 1, w=counts**power)
    return least, slope / least


def _absolute(sizes, counts):
    return fitted(sizes, counts, 0.0)


def _half_relative(sizes, counts):
    return fitted(sizes, counts, -0.5)


def _squared(sizes, counts):
    return fitted(sizes, counts, -2.0)


def _ends(sizes, counts):
    points = np.argsort(sizes)[[0, -1]]
    return fitted(sizes[points], counts[points], 0.0)


def _examples(sizes, counts):
    least, slope = np.polyfit(sizes, sizes * counts, 1)
    return least, slope / least


# wrong fits, all told by one drawn curve, and the place of the size below its knee
_TOLD = (
    ((_absolute,), -2),
    ((_half_relative, _squared), -1),
    ((_ends,), -2),
    ((_examples,), -5),
)


@functools.cache
def _drawn(seed):
    numbers, curves = random.Random(seed), []
    for wrong_fits, place in _TOLD:
        told, allowed = 0.0, _FAR
        while told < _FAR or allowed > _NEAR:
            curve = _noisy(numbers, place)
            points = _arrays(curve)
            right = fitted(*points)
            told = min(max(_off(fit(*points), right)) for fit in wrong_fits)
            if told >= _FAR:
                allowed = max(_off(_least_absolute(*points), right))
        curves.append(curve)
    return curves


def _least_absolute(sizes, counts):
    """The smallest sum of relative errors, not of their squares: as right."""
    weights = 1 / counts
    for _ in range(30):
        slope, least = np.polyfit(1 / sizes, counts, 1, w=weights)
        errors = np.abs((least + slope / sizes) / counts - 1)
        weights = 1 / counts / np.sqrt(np.maximum(errors, _EXACT))
    return least, slope / least


def _noisy(numbers, place):
    """A curve that was measured with errors of up to 4 %; its knee is no size of it."""
    first, count = numbers.choice((3, 5, 6, 8, 12)), numbers.randint(9, 11)
    sizes = [first * 2**i for i in range(count)]
    knee = numbers.uniform(1.3, 1.6) * sizes[place]
    least = numbers.randint(200, 2000)
    numbers.shuffle(sizes)
    errors = [numbers.choice((-1, 1)) * numbers.uniform(0.02, 0.04) for _ in sizes]
    return {
        size: round(least * (1 + knee / size) * (1 + error))
        for size, error in zip(sizes, errors)
    }


def _arrays(curve):
    return np.array(list(curve), float), np.array(list(curve.values()), float)


def _off(found, expected):
    """How far the two numbers of a curve are off, relative to those expected."""
    return [abs(one / other - 1) for one, other in zip(found, expected)]


def judge(case: Case, seen) -> str:
    """Compare both numbers of each curve with those of a fit of relative errors."""
    [rank] = seen
    rows = list(zip((curve for [curve] in case.given["table"]), rank["answers"]))
    wheres = [_where(number, curve) for number, (curve, _) in enumerate(rows)]
    pairs = pairs_of(
        rank["answers"],
        [f"{where}: find_knee" for where in wheres],
        "Two numbers in this order, and nothing else: `return least, knee`.",
    )
    offs = list(map(_off, pairs, case.expected))
    failed = [number for number, off in enumerate(offs) if max(off) > CLOSE]
    if failed:
        curves = [curve for curve, _ in rows]
        fits = list(map(_Fit, map(_arrays, curves), pairs, case.expected))
        first = failed[0]
        which = 0 if offs[first][0] > CLOSE else 1
        found, right = (two[which] for two in (pairs[first], case.expected[first]))
        ratios = [_ratios(*two) for two in zip(pairs, case.expected)]
        raise Wrong(
            f"{wheres[first]}: {('least', 'knee')[which]} {found:.4g}, expected"
            f" {right:.4g}",
            _why([fits[number] for number in failed]),
            clue={"curves": dict(enumerate(ratios))},
        )
    refuse_changed(rank["answers"], "Leave the curve as it is, others may need it")
    least, knee = case.expected[1]
    return (
        f"{len(rows)} curves: at batch size {knee:.0f} the second takes"
        f" {2 * least:.0f} steps, and never fewer than {least:.0f}"
    )


def _where(number, curve):
    return (
        f"curve {number + 1}, {len(curve)} batch sizes from {min(curve)} to"
        f" {max(curve)}"
    )


def _ratios(found, expected):
    return {name: f / e for name, f, e in zip(("least", "knee"), found, expected)}


def pairs_of(answers: list, where: list[str], hint: str) -> list:
    """The two numbers of each answer.

    Errors: `Wrong` with this hint for the first one that is none, said `where`.
    """
    pairs = list(map(_pair, answers))
    for place, answer, pair in zip(where, answers, pairs):
        if pair is None:
            parts = _parts(answer)
            raise Wrong(
                f"{place} returned {shown(answer['returned'])}, expected a pair of"
                " numbers",
                hint,
                clue={
                    "kind": _kind(answer, parts),
                    "length": None if parts is None else len(parts),
                    "numbers": [number_of(one["returned"]) for one in answers],
                },
            )
    return pairs


def _pair(answer):
    parts = _parts(answer)
    pair = parts and [number_of(part) for part in parts]
    return pair if pair and len(pair) == 2 and None not in pair else None


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
        raise Wrong(
            "the numbers are right, but the dictionary is not what it was before the"
            " call",
            f"{reason}: work on a copy.",
        )


class _Fit(NamedTuple):
    """A curve, and two pairs of its least steps and its knee."""

    points: tuple
    found: list
    right: tuple

    @property
    def sizes(self):
        return self.points[0]

    @property
    def counts(self):
        return self.points[1]

    def errors(self, pair):
        """Measured and fitted counts differ by so much, relative to the measured."""
        least, knee = pair
        return least * (1 + knee / self.sizes) / self.counts - 1


def _why(failed):
    """The hint for fits that are wrong."""
    with np.errstate(all="ignore"):  # the numbers may be anything
        for hint, holds in _SIGNS:
            if all(map(holds, failed)):
                return hint
    knees = [fit.found[1] for fit in failed]
    if len(failed) > 1 and max(knees) == min(knees):
        return (
            f"The knee is {knees[0]:.4g} for every curve: it belongs to the fit, too."
        )
    return _farthest(failed[0])


def _is_absolute(fit):
    own, best = (fit.errors(pair) for pair in (fit.found, fit.right))
    smaller = np.square(own * fit.counts).sum() < np.square(best * fit.counts).sum()
    return smaller and np.square(own).sum() > 1.2 * np.square(best).sum()


def _is_measured(fit):
    return bool(np.isclose(fit.sizes, fit.found[1]).any())


def _is_last(fit):
    ends = fit.counts.min(), fit.counts[fit.sizes.argmax()]
    return bool(np.isclose(ends, fit.found[0]).any())


def _is_of_two(fit):
    """True if the curve runs through two points, and near no others."""
    return (np.abs(fit.errors(fit.found)) < _EXACT).sum() == 2


def _only_knee(fit):
    return _off(fit.found, fit.right)[0] < CLOSE / 2


_TWO_POINTS = "Two points decide alone, errors and all: let every point count."
_SIGNS = (
    (
        "Both numbers are read off at measured points. The curve only comes near to"
        " the least, and the knee lies between two sizes: fit the curve.",
        lambda fit: _is_measured(fit) and _is_last(fit),
    ),
    (
        "The knee is a number of the fit, slope / least, and rarely one of the sizes"
        " that were measured: do not round it to one.",
        _is_measured,
    ),
    (
        "The steps at the largest batch are not the least: the curve still falls there,"
        " by least * knee / B. Let the fit say what is left.",
        _is_last,
    ),
    (
        "Absolute errors are made small, and one per cent of the largest count is more"
        " than all steps on the right. Divide each error by its own count: w=1 / counts"
        " in polyfit, sigma=counts in curve_fit.",
        _is_absolute,
    ),
    (_TWO_POINTS, _is_of_two),
    (
        "The least is right, the knee is not. It is a batch size: the slope over"
        " 1 / B is least * knee, so the knee is slope / least.",
        _only_knee,
    ),
)


def _farthest(fit):
    """The hint that says where the curve which was found is farthest off."""
    errors = np.abs(fit.errors(fit.found))
    worst = errors.argmax()
    if errors[worst] < CLOSE:
        return "Close, but not close enough: let the fit go on until nothing changes."
    needed = (1 + fit.errors(fit.found)[worst]) * fit.counts[worst]
    told = (
        f"With these numbers {needed:,.0f} steps would be needed at batch size"
        f" {fit.sizes[worst]:.0f}, measured are {fit.counts[worst]:,.0f}."
    )
    if np.abs(fit.errors(fit.right)).max() < _EXACT:
        return (
            f"{told} This curve has no errors, so any weights would do: is it a"
            " straight line over 1 / B that you fit, are least and knee taken from it"
            " by the formula, and does a search go on until nothing changes?"
        )
    return (
        f"{told} Make such differences small for all points, each one relative to its"
        " count."
    )


EXERCISE = Exercise("6.2", observe, cases, judge, proof="least and knee of {}")
