"""What mistakes in exercise 6.2 give: other fits, other numbers of the right fit."""

import contextlib
import warnings

import numpy as np

from course_lib.exercises.stages.stage06.bending_fits import fitted, knee_of, line
from course_lib.exercises.stages.stage06.bending_signs import ABSOLUTE, SIGNS, farthest

_CLOSE = 0.01  # relative: how well the numbers of a known mistake are met


def why_other(failed: list) -> str:
    """The hint for curves (batch sizes, counts, what was found) that are not right."""
    for hint, mistake in _MISTAKES:
        # some mistakes divide by zero on some curves
        with contextlib.suppress(ValueError, np.linalg.LinAlgError):
            if all(_agrees(mistake, curve) for curve in failed):
                return hint
    for hint, holds in SIGNS:
        if all(holds(*curve) for curve in failed):
            return hint
    return farthest(*failed[0])


def why_failed(error) -> str | None:
    """The hint for an answer that raised, or None."""
    text = str(error)
    if "cannot unpack" in text or "KeyError" in text:
        return (
            "A dictionary gives its keys, the batch sizes: steps.items() gives pairs."
        )
    if "dict_values" in text or "dict_keys" in text or "'dict'" in text:
        return "NumPy needs lists: list(steps) and list(steps.values())."
    if "Optimal parameters not found" in text:
        return (
            "The search never ends. sigma=counts makes the errors relative, and"
            " p0=(min(counts), 100) is a start near the end."
        )
    return None


def _agrees(mistake, curve):
    sizes, counts, found = curve
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # polyfit's, of lines that cannot be fitted
        return np.allclose(found, mistake(sizes, counts), rtol=_CLOSE, atol=1e-6)


def _fits(*, of, also=()):
    """The mistake `of` makes of constant and slope, in both kinds of fit."""
    relative = lambda b, c: of(*line(1 / b, c, 1 / c))  # noqa: E731
    absolute = lambda b, c: of(*line(1 / b, c))  # noqa: E731
    return relative, absolute, *also


def _two(first, second):
    """A curve through two points, by their places in the order of the batch sizes."""

    def through(sizes, counts):
        order = np.argsort(sizes)[[first, second]]
        return knee_of(line(1 / sizes[order], counts[order]))

    return through


def _solved(rows, right):
    return knee_of(np.linalg.lstsq(np.stack(rows, 1), right, rcond=None)[0])


def _powers(pick):
    """A straight line in the logarithms."""
    return lambda b, c: pick(*line(np.log(b), np.log(c)))


def _reciprocal(sign):
    def straight(sizes, counts):
        constant, slope = line(1 / sizes, 1 / counts)
        return 1 / constant, sign * slope / constant

    return straight


def _floored(sizes):
    return np.stack([np.ones_like(sizes), np.floor(1 / sizes)], 1)


_KNOWN = (
    (
        "polyfit gives the slope first, then the constant.",
        _fits(of=lambda least, slope: (slope, least / slope)),
    ),
    (
        "polyfit gives the slope first, and the knee is slope / least.",
        _fits(of=lambda least, slope: (slope, least)),
    ),
    ("The two are swapped: least first.", _fits(of=lambda a, s: (s / a, a))),
    (
        "The second number is least * knee, the slope: divide it by least.",
        _fits(of=lambda a, s: (a, s), also=_fits(of=lambda a, s: (a, s * a))),
    ),
    ("The knee is upside down: slope / least.", _fits(of=lambda a, s: (a, a / s))),
    (
        "These are the steps at the knee, twice as many as the least.",
        _fits(of=lambda a, s: (2 * a, s / a)),
    ),
    (
        "Two points decide alone, errors and all: let every point count.",
        (_two(0, -1), _two(0, 1), _two(-2, -1)),
    ),
    (
        "Sizes and counts are no longer pairs: sort items, or nothing.",
        (
            lambda b, c: fitted(np.sort(b), c),
            lambda b, c: fitted(np.sort(b), np.sort(c)),
            lambda b, c: fitted(b, np.sort(c)),
            lambda b, c: fitted(b, -np.sort(-c)),
            lambda b, c: knee_of(line(1 / np.sort(b), c)),
            lambda b, c: knee_of(line(1 / np.sort(b), np.sort(c))),
        ),
    ),
    (ABSOLUTE, (lambda b, c: knee_of(line(1 / b, c)),)),
    (
        "The weights are the wrong way round: a large count has a large error, so its"
        " weight is 1 / count, its sigma the count.",
        (lambda b, c: knee_of(line(1 / b, c, c)),),
    ),
    (
        "Batch size times steps is a straight line, but the errors grow with it: those"
        " at the largest batch decide. Divide each by its own value.",
        (lambda b, c: knee_of(line(b, b * c)[::-1]),),
    ),
    (
        "The curve is straight over 1 / B, not over B.",
        tuple(
            lambda b, c, of=of, power=power: of(*line(b, c, c**power))
            for of in (lambda a, s: (a, s / a), lambda a, s: (a, s))
            for power in (0.0, -1.0)
        ),
    ),
    (
        "A straight line in both logarithms has no bend: its steps fall to 0.",
        tuple(
            _powers(lambda a, s, of=of, sign=sign: of(a, sign * s))
            for of in (
                lambda a, s: (np.exp(a), s),
                lambda a, s: (np.exp(a), np.exp(s)),
                lambda a, s: (np.exp(a), s / np.exp(a)),
                lambda a, s: (a, s),
                lambda a, s: (a, s / a),
                lambda a, s: (s, a),
            )
            for sign in (1, -1)
        ),
    ),
    (
        "log(1 + knee / B) is not knee / B: the logarithm makes no straight line here.",
        (
            lambda b, c: (np.exp(line(1 / b, np.log(c))[0]), line(1 / b, np.log(c))[1]),
            lambda b, c: knee_of(line(1 / b, np.log(c))),
        ),
    ),
    (
        "1 / steps is no straight line over 1 / B.",
        (_reciprocal(1), _reciprocal(-1)),
    ),
    (
        "Divide the whole line by its count: the 1, the 1 / B and the count itself.",
        (
            lambda b, c: _solved([1 / c, 1 / (b * c)], c),
            lambda b, c: _solved([np.ones_like(b), 1 / b], np.ones_like(b)),
            lambda b, c: _solved([np.ones_like(b), 1 / (b * c)], np.ones_like(b)),
            lambda b, c: _solved([1 / c, 1 / b], np.ones_like(b)),
        ),
    ),
    (
        "`1 // B` is 0 for whole numbers: a single slash.",
        (
            lambda b, c: knee_of(np.linalg.lstsq(_floored(b), c, rcond=None)[0]),
            lambda b, c: knee_of(
                np.linalg.lstsq(_floored(b) / c[:, None], c / c, rcond=None)[0]
            ),
        ),
    ),
)
_MISTAKES = [(hint, mistake) for hint, several in _KNOWN for mistake in several]
