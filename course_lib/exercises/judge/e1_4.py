"""Exercise 1.4, decided: the bytes of a training, by kind."""

import itertools
import random
from collections.abc import Iterator

from course_lib.accelerators.memory import KINDS
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e1_4 import observe
from course_lib.exercises.values import number_of, shown

# one layer alone has no hidden width, and equal widths are to be counted each
_CASES = (((64, 32, 10), 50), ((64, 256, 128, 10), 32), ((20, 300, 300, 300, 5), 7))
_CASES += (((13, 4), 3),)
_BYTES = dict.fromkeys(KINDS, 4) | {"optimizer state": 8}
_WHAT = {
    "parameters": "Each Linear has in × out weights and out biases, of 4 bytes.",
    "gradients": "Each parameter has one gradient of its own size.",
    "optimizer state": "Adam keeps two numbers of 4 bytes per parameter.",
    "activations": "What stays for backward: the batch, and what each layer puts out,"
    " once, of 4 bytes.",
}
_NAMES = ", ".join(map(repr, KINDS))
_UNITS = (("bytes", 1), ("kB", 1e3), ("KiB", 2**10), ("MB", 1e6), ("MiB", 2**20))
_ROUNDED = 0.06  # relative error of a number that was rounded, in whatever unit
_BLOCK = 512  # bytes to which a real GPU rounds each tensor


def cases(seed: int) -> Iterator[Case]:
    """Networks of one to four layers, some of them equally wide."""
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
    baseline, said = rank["baseline"], rank["returned"]
    _refuse_other(said)
    widths, samples = case.given["widths"], case.given["samples"]
    for kind in KINDS:
        found, expected = number_of(said[kind]), baseline["counted"][kind]
        if found is None or abs(found - expected) > baseline["slack"][kind]:
            whole = found is not None and found.is_integer() and abs(found) < 1e15
            raise Wrong(
                f"widths {list(widths)}, {samples} samples: {kind}"
                f" {f'{found:,.0f}' if whole else shown(said[kind])},"
                f" {baseline['source']} {expected:,} bytes",
                _why(kind, found, case.given),
                clue={"kind": kind, "off": found and found - expected},
            )
    return " → ".join(map(str, widths))


def _refuse_other(said):
    if not isinstance(said, dict):
        raise Wrong(
            f"training_bytes returned {shown(said)}, expected a dict",
            f"Its keys are the four kinds: {_NAMES}.",
        )
    missing = [kind for kind in KINDS if kind not in said]
    if missing:
        keys = ", ".join(map(str, said)) or "none"
        raise Wrong(
            f"the dict has no key {missing[0]!r}, its keys are {keys}",
            f"Four keys, written so: {_NAMES}.",
        )


def _why(kind, found, given):
    if found is None:
        return "A number of bytes is expected here."
    tensors = _tensors(kind, **given)
    expected = _BYTES[kind] * sum(numbers for _, numbers in tensors)
    unit, scale = min(_UNITS, key=lambda unit: abs(found * unit[1] - expected))
    off = abs(found * scale / expected - 1)
    if off < _ROUNDED and (scale > 1 or not found % 100):
        nearly = "" if off < _ROUNDED / 100 else "nearly "
        return f"The number is {nearly}right in {unit}. Give bytes, without rounding."
    formula = _as_sum(found, kind, tensors, samples=given["samples"])
    formula = formula or _as_other_layers(found, kind, given["widths"])
    if formula:
        return f"Your number is {formula}. {_WHAT[kind]}"
    if found > expected and not found % _BLOCK:
        return f"Does it round up to {_BLOCK} bytes, as a real GPU does? Do not round."
    return f"Expected: {_BYTES[kind]} bytes × ({_sum(tensors)}). {_WHAT[kind]}"


def _tensors(kind, widths, samples):
    """What is held, as pairs of a text and how many numbers that is."""
    if kind == "activations":
        return [(f"{samples} × {width}", samples * width) for width in widths]
    tensors = []
    for one, other in zip(widths, widths[1:]):
        tensors += [(f"{one} × {other}", one * other), (f"{other}", other)]
    return tensors


def _sum(tensors):
    return " + ".join(text for text, _ in tensors)


def _as_sum(found, kind, tensors, *, samples):
    """A number as bytes of some tensors, or other bytes of all; "" if it is neither."""
    right = {f"{_BYTES[kind]} bytes": _BYTES[kind]}
    others = {f"{number} bytes": number for number in (1, 2, 4, 8, 12, 16)}
    others |= {f"{samples} × {text}": samples * n for text, n in others.items()}
    for count in range(len(tensors), 0, -1):
        for kept in itertools.combinations(tensors, count):
            numbers = sum(number for _, number in kept)
            for text, factor in (others if kept == tuple(tensors) else right).items():
                if found == factor * numbers:
                    return f"{text} × ({_sum(kept)})"
    return ""


def _as_other_layers(found, kind, widths):
    """A number as the bytes of layers of other shapes, "" if it is none."""
    if kind == "activations":
        return ""
    ways = {"in": widths[:-1], "out": widths[1:], "1": [1] * (len(widths) - 1)}
    for one, other, bias in itertools.product(ways, repeat=3):
        layers = zip(ways[one], ways[other], ways[bias])
        if found == _BYTES[kind] * sum(a * b + c for a, b, c in layers):
            return f"{_BYTES[kind]} bytes × ({one} × {other} + {bias}) of each layer"
    return ""


EXERCISE = Exercise(
    "1.4",
    observe,
    cases,
    judge,
    proof="all four kinds of the networks {}, to the byte",
)
