"""Exercise 1.4, decided: the bytes of a training, by kind."""

import itertools
import random
from collections.abc import Iterator

from course_lib.exercises.exercise import Case
from course_lib.exercises.observe.e1_4 import BLOCK
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown

_TEXTS = Texts("1.4")
# one layer alone has no hidden width, and equal widths are to be counted each
_CASES = (((64, 32, 10), 50), ((64, 256, 128, 10), 32), ((20, 300, 300, 300, 5), 7))
_CASES += (((13, 4), 3),)
# bytes for each number of a layer, or for each number that a layer puts out
_BYTES = {"parameters": 4, "gradients": 4, "optimizer state": 8, "activations": 4}
_UNITS = {"bytes": 1, "kB": 1e3, "KiB": 2**10, "MB": 1e6, "MiB": 2**20}
_ROUNDED = 0.06  # relative error of a number that was rounded, in whatever unit


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
    widths, samples = case.given["widths"], case.given["samples"]
    if not isinstance(said, dict):
        raise _TEXTS.wrong("no dict", returned=shown(said))
    if missing := [kind for kind in _BYTES if kind not in said]:
        keys = ", ".join(map(str, said)) or "none"
        raise _TEXTS.wrong("no key", missing=missing[0], keys=keys)
    for kind, expected in baseline["counted"].items():
        found = number_of(said[kind])
        if found is None or abs(found - expected) > baseline["slack"][kind]:
            why, fill = _why(kind, found, widths=widths, samples=samples)
            fill |= {"widths": list(widths), "samples": samples, "kind": kind}
            fill |= {"told": _told(found, said[kind]), "expected": expected}
            fill["source"] = baseline["source"]
            clue = {"kind": kind, "off": found and found - expected}
            raise _TEXTS.wrong("other bytes", why=why, clue=clue, **fill)
    return " → ".join(map(str, widths))


def _told(found, returned):
    """A whole number with commas, all else as it was returned."""
    whole = found is not None and found.is_integer() and abs(found) < 1e15
    return f"{found:,.0f}" if whole else shown(returned)


def _why(kind, found, *, widths, samples):
    """The name of a hint, and what fills it in."""
    if found is None:
        return "no number", {}
    tensors = _tensors(kind, widths, samples)
    formula, right = _product(_BYTES[kind], tensors)
    unit, scale = min(_UNITS.items(), key=lambda unit: abs(found * unit[1] - right))
    off = abs(found * scale / right - 1)
    if off < _ROUNDED and (scale > 1 or not found % 100):
        return "unit" if off < _ROUNDED / 100 else "nearly unit", {"unit": unit}
    for wrong, number in _formulas(kind, tensors, widths=widths, samples=samples):
        if found == number:
            return kind, {"count": _TEXTS.hint("yours", formula=wrong)}
    if found > right and not found % BLOCK:
        return "rounded", {"block": BLOCK}
    return kind, {"count": _TEXTS.hint("expected", formula=formula)}


def _tensors(kind, widths, samples):
    """What is held, as pairs of a text and how many numbers that is."""
    if kind == "activations":
        return [(f"{samples} × {width}", samples * width) for width in widths]
    tensors = []
    for one, other in zip(widths, widths[1:]):
        tensors += [(f"{one} × {other}", one * other), (f"{other}", other)]
    return tensors


def _product(each, tensors):
    """So many bytes for each number of some tensors: as a text, and what they are."""
    texts, counts = zip(*tensors)
    return f"{each} bytes × ({' + '.join(texts)})", each * sum(counts)


def _formulas(kind, tensors, *, widths, samples):
    """Wrong ways to count: other bytes of all tensors, less tensors, other layers."""
    others = [_product(each, tensors) for each in (1, 2, 4, 8, 12, 16)]
    yield from others
    yield from ((f"{samples} × {text}", samples * n) for text, n in others)
    for count in range(len(tensors) - 1, 0, -1):
        for kept in itertools.combinations(tensors, count):
            yield _product(_BYTES[kind], kept)
    if kind == "activations":
        return
    ways = {"in": widths[:-1], "out": widths[1:], "1": [1] * (len(widths) - 1)}
    for one, other, bias in itertools.product(ways, repeat=3):
        numbers = sum(a * b + c for a, b, c in zip(ways[one], ways[other], ways[bias]))
        text = f"{_BYTES[kind]} bytes × ({one} × {other} + {bias}) of each layer"
        yield text, _BYTES[kind] * numbers
