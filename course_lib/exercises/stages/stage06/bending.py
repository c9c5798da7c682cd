"""Exercise 6.2: how many steps a training needs at least, and where its curve bends."""

import numpy as np

from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import number_of
from course_lib.exercises.stages.stage06.bending_fits import fitted
from course_lib.exercises.stages.stage06.bending_mistakes import why_failed, why_other
from course_lib.text import short

CLOSE = 0.1  # relative: fits that make relative errors small differ by 0.03

# steps by batch size: the first exact, then with errors of a few per cent. A fit of
# absolute errors fails in the second, two points in the third, sorting in both
CURVES = (
    {16: 7936, 32: 4096, 64: 2176, 128: 1216, 256: 736}
    | {512: 496, 1024: 376, 2048: 316, 4096: 286},
    {1024: 171, 2048: 108, 4096: 75, 8192: 64, 16384: 55, 32768: 53}
    | {1: 126548, 2: 63760, 4: 30519, 8: 15540, 16: 7487, 32: 3911}
    | {64: 1925, 128: 1029, 256: 545, 512: 287},
    {800: 4656, 1000: 4328, 1500: 3590, 2000: 3484, 3000: 2933}
    | {50: 39423, 100: 19076, 200: 10936, 300: 8293, 500: 5981},
    {8: 15467, 16: 7948, 32: 4598, 64: 2758, 128: 2011, 256: 1648}
    | {512: 1409, 1024: 1283, 2048: 1259, 4096: 1292},
)


def check_knee(attempt: Attempt) -> str:
    """Compare both numbers of each curve with those of a fit of relative errors."""
    (seen,) = attempt(_find, world_size=1, why=why_failed)
    pairs = [_pair(number, one) for number, one in enumerate(seen)]
    curves = [_arrays(curve) for curve in CURVES]
    expected = [fitted(*curve) for curve in curves]
    failed = [n for n in range(len(pairs)) if not _right(pairs[n], expected[n])]
    if failed:
        name, found, right = _difference(pairs[failed[0]], expected[failed[0]])
        raise Wrong(
            f"{_where(failed[0])}: {name} {found:.4g}, expected {right:.4g}",
            why_other([(*curves[n], pairs[n]) for n in failed]),
        )
    least, knee = expected[1]
    return (
        f"least and knee of {len(CURVES)} curves: at batch size {knee:.0f} the second"
        f" takes {2 * least:.0f} steps, and never fewer than {least:.0f}"
    )


def _find(rank, world_size, answer, /):
    seen = []
    for curve in CURVES:
        given = dict(curve)
        value = answer(given)
        said, pair = short(value), _numbers(value)
        seen.append(
            {
                "said": said,
                "pair": pair,
                "none": value is None,
                "single": number_of(value) is not None,
                "changed": list(given.items()) != list(curve.items()),
            }
        )
    return seen


def _numbers(value):
    """What was returned as a list of floats, None for each that is no number."""
    if isinstance(value, dict | set | str):
        return None
    try:
        return [number_of(one) for one in value]
    except TypeError:
        return None


def _arrays(curve):
    return np.array(list(curve), float), np.array(list(curve.values()), float)


def _where(number):
    curve = CURVES[number]
    return (
        f"curve {number + 1} of {len(CURVES)}, {len(curve)} batch sizes from"
        f" {min(curve)} to {max(curve)}"
    )


def _pair(number, seen):
    """The two numbers of a curve."""
    pair = seen["pair"]
    if pair is None or len(pair) != 2 or None in pair:
        raise Wrong(
            f"{_where(number)}: find_knee returned {seen['said']}, expected a pair of"
            " numbers",
            _why_none(seen, pair),
        )
    if seen["changed"]:
        raise Wrong(
            f"{_where(number)}: the dictionary is not what it was before the call",
            "Leave the curve as it is, others may need it: work on a copy.",
        )
    return pair


def _why_none(seen, pair):
    if seen["none"]:
        return "The function ends without a return."
    if seen["single"]:
        return "One number is not enough: return both, `return least, knee`."
    if pair and ("nan" in seen["said"] or "inf" in seen["said"]):
        return "A fit that divides by zero or overflows? Look at its lines."
    return "Two numbers in this order, and nothing else: `return least, knee`."


def _right(pair, expected):
    return all(map(_near, pair, expected))


def _near(found, expected):
    return abs(found / expected - 1) <= CLOSE


def _difference(pair, expected):
    """Name, found and expected of the first number that is wrong."""
    rows = zip(("least", "knee"), pair, expected)
    return next(row for row in rows if not _near(*row[1:]))
