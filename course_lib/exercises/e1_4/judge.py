"""Exercise 1.4, decided: the bytes of a training, by kind."""

import random
from collections.abc import Iterator

from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown

_TEXTS = Texts("1.4")
# one layer alone has no hidden width, and equal widths are to be counted each
_CASES = (
    ([64, 32, 10], 50),
    ([64, 256, 128, 10], 32),
    ([20, 300, 300, 300, 5], 7),
    ([13, 4], 3),
)
# bytes for each number of a layer, or for each number that a layer puts out
_BYTES = {"parameters": 4, "gradients": 4, "optimizer state": 8, "activations": 4}
_UNITS = {"kB": 1e3, "KiB": 2**10, "MB": 1e6, "MiB": 2**20}
_ROUNDED = 0.06  # relative error of a number that was rounded, in whatever unit


def cases(seed: int) -> Iterator[Case]:
    """Yield networks of one to four layers, some of them equally wide."""
    numbers = random.Random(seed)
    for widths, samples in _CASES if not seed else _drawn(numbers):
        yield Case({"widths": widths, "samples": samples})


def _drawn(numbers):
    for layers in (2, 3, 4, 1):
        widths = numbers.sample(range(2, 40), layers + 1)
        if layers == 4:
            widths[2] = widths[1]
        yield tuple(widths), numbers.randint(2, 30)


def judge(case: Case, seen) -> str:
    """Compare each number with what a device counts."""
    [rank] = seen
    counted, said = rank["baseline"], rank["returned"]
    widths, samples = case.given["widths"], case.given["samples"]
    if not isinstance(said, dict):
        raise _TEXTS.wrong("no dict", returned=shown(said))
    if missing := [kind for kind in _BYTES if kind not in said]:
        keys = ", ".join(map(str, said)) or "none"
        raise _TEXTS.wrong("no key", missing=missing[0], keys=keys)
    for kind, expected in counted.items():
        found = number_of(said[kind])
        if found != expected:
            unit = _unit(found, expected)
            why = "no number" if found is None else "unit" if unit else kind
            fill = {"widths": list(widths), "samples": samples, "kind": kind}
            fill |= {"expected": expected, "unit": unit}
            fill["told"] = shown(said[kind]) if found is None else f"{found:,.15g}"
            fill["formula"] = _formula(kind, widths, samples)
            clue = {"kind": kind, "off": found and found - expected}
            raise _TEXTS.wrong("other bytes", why=why, clue=clue, **fill)
    return " → ".join(map(str, widths))


def _unit(found, expected):
    """The larger unit in which a number is right, or nearly so; None for others."""
    off = {
        unit: abs((found or 0) * scale / expected - 1) for unit, scale in _UNITS.items()
    }
    unit = min(off, key=off.__getitem__)
    return unit if off[unit] < _ROUNDED else None


def _formula(kind, widths, samples):
    """What is right: bytes, times how many numbers are held."""
    held = [f"{one} × {other} + {other}" for one, other in zip(widths, widths[1:])]
    if kind == "activations":
        held = [f"{samples} × {width}" for width in widths]
    return f"{_BYTES[kind]} bytes × ({' + '.join(held)})"
