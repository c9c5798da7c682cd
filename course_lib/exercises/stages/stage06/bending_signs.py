"""What can be told of a wrong fit in exercise 6.2 without knowing how it was made."""

import numpy as np

from course_lib.exercises.stages.stage06.bending_fits import fitted

ABSOLUTE = (
    "Absolute errors are made small, and one per cent of the largest count is more than"
    " all steps on the right. Divide each error by its own count."
)


def _errors(sizes, counts, pair):
    """Measured and fitted counts differ by so much, relative to the measured."""
    least, knee = pair
    return least * (1 + knee / sizes) / counts - 1


def _is_absolute(sizes, counts, found):
    own, right = (
        _errors(sizes, counts, pair) for pair in (found, fitted(sizes, counts))
    )
    smaller = np.square(own * counts).sum() < np.square(right * counts).sum()
    return smaller and np.square(own).sum() > 2 * np.square(right).sum()


def _is_measured(sizes, counts, found):
    return bool(np.isclose(sizes, found[1]).any())


def _is_last(sizes, counts, found):
    ends = counts.min(), counts[sizes.argmax()]
    return bool(np.isclose(ends, found[0]).any())


# hints, and what holds for each curve that is not right
SIGNS = (
    (
        "Both numbers are read off at measured points. The curve only comes near to"
        " the least, and the knee lies between two sizes: fit the curve.",
        lambda *curve: _is_measured(*curve) and _is_last(*curve),
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
    (ABSOLUTE, _is_absolute),
)


def farthest(sizes, counts, found) -> str:
    """The hint that says where the curve which was found is farthest off."""
    errors = np.abs(_errors(sizes, counts, found))
    worst = errors.argmax()
    if errors[worst] < 0.12:
        return "Close, but not close enough: let the fit go on until nothing changes."
    return (
        f"With these numbers {found[0] * (1 + found[1] / sizes[worst]):,.0f} steps"
        f" would be needed at batch size {sizes[worst]:.0f}, measured are"
        f" {counts[worst]:,.0f}. Make such differences small for all points, each one"
        " relative to its count."
    )
