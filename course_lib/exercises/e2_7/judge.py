"""Exercise 2.7, decided: the bytes that a layer keeps for backward."""

import random
from collections.abc import Iterator

import numpy as np

from course_lib.accelerators import gpt_memory
from course_lib.exercises.compare import near
from course_lib.exercises.e2_7.observe import PROBES
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed, size

_TEXTS = Texts("2.7")
_OFF = 0.02  # of the bytes
_EXACT = 1e-6  # of the bytes, or one byte: a sum of terms, and nothing else
_HUGE = 1e20  # bytes of any layer
_UNITS = {"kB": 1e3, "KiB": 2**10, "MB": 1e6, "MiB": 2**20, "GB": 1e9, "GiB": 2**30}
# batch, length, width, heads of a layer that is run, of GPT-3's, of one for long texts
_SHAPES = {
    (False, False): ((3, 200, 96, 3), (5, 2048, 12288, 96), (2, 16384, 1536, 24)),
    (True, False): ((7, 90, 160, 4), (5, 2048, 12288, 96), (3, 8192, 1024, 16)),
    (False, True): ((2, 300, 64, 2), (3, 2048, 12288, 96), (1, 32768, 2048, 16)),
    (True, True): ((5, 130, 128, 4), (9, 2048, 12288, 96), (2, 16384, 1024, 8)),
}
_TOKENS, _SQUARES, _PAIRS = (
    "batch · length · width",
    "width²",
    "batch · heads · length²",
)
# hints on weights, in place of those of the setting
_OF_WEIGHTS = {"float32": "weights in float32", "autocast": "weights in autocast"}


def cases(seed: int) -> Iterator[Case]:
    """Yield three layers for each setting of both flags.

    The first is small enough to be run; the others are only reached by arithmetic.
    """
    numbers = random.Random(seed)
    for flags, shapes in _SHAPES.items():
        drawn = _drawn(numbers) if seed else shapes
        given = dict(zip(("autocast", "recompute"), flags)) | {"shapes": drawn}
        yield Case(given, expected=[_bytes(shape, *flags) for shape in drawn])


def _drawn(numbers):
    few, many = numbers.randint(2, 5), 8 * numbers.randint(5, 12)
    return (
        (numbers.randint(2, 7), numbers.randint(120, 250), 32 * few, few),
        (numbers.randint(3, 9), 256 * numbers.randint(5, 15), 128 * many, many),
        (numbers.randint(1, 3), 4096 * numbers.randint(2, 5), 1024, 16),
    )


def _bytes(shape, autocast, recompute):
    batch, length, width, _ = shape
    if recompute:
        return gpt_memory.recomputed(batch, length, width)
    if autocast:
        return gpt_memory.layer(*shape, bits=16) + gpt_memory.cast_weights(width)
    return gpt_memory.layer(*shape)


def judge(case: Case, seen) -> str:
    """Compare with what a virtual GPU counts, and with arithmetic."""
    [rank] = seen
    how = "autocast" if case.given["autocast"] else "float32"
    how += " and recomputation" if case.given["recompute"] else ""
    each = [rank["baseline"], *case.expected[1:]]
    for shape, answer, expected in zip(case.given["shapes"], rank["layers"], each):
        value = answer["returned"]
        if not near(number_of(value), expected, _OFF * expected):
            batch, length, width, heads = shape
            where = f"{how}, batch {batch}, length {length:,}, width {width:,}"
            fill = {"where": f"{where}, {heads} heads", "expected": expected}
            again = number_of(rank["again"]), number_of(rank["layers"][0]["returned"])
            fill["stays"] = again[0] != again[1] and None not in again
            raise _wrong(case.given, value, _counts(case, rank), fill=fill)
    return f"{how} ({size(each[1])} at width {case.given['shapes'][1][2]:,})"


def _wrong(given, value, counts, *, fill):
    """The `Wrong` of what was returned, by what the answer counts."""
    found, expected = number_of(value), fill["expected"]
    if found is None:
        clue = {"type": type(value).__name__}
        return _TEXTS.wrong("no number", clue=clue, returned=shown(value), **fill)
    fill |= {"found": f"{found:,.12g}", "expected": f"{expected:,}", "told": ""}
    if unit := _unit(found, expected):
        return _TEXTS.wrong("bytes", why="unit", clue={"unit": unit}, unit=unit, **fill)
    setting = "autocast" if given["autocast"] else "float32"
    why = "recomputation" if given["recompute"] else setting
    if not counts:
        why = why if counts is None else "stays" if fill["stays"] else "no sum"
        return _TEXTS.wrong("bytes", why=why, clue={"ratio": found / expected}, **fill)
    right = _right(**given)
    off = [name for name in counts if counts[name] != right.get(name, 0)]
    if counts[_PAIRS]:
        why = "scores"
    elif _SQUARES in off:
        why = _OF_WEIGHTS.get(why, why)
    fill["told"] = _told(counts, right, off)
    clue = {name: count for name, count in counts.items() if count}
    return _TEXTS.wrong("bytes", why=why, clue=clue, **fill)


def _unit(found, expected):
    """The unit in which a number is right, or nearly so; None for others."""
    off = {unit: abs(found * scale / expected - 1) for unit, scale in _UNITS.items()}
    unit = min(off, key=off.__getitem__)
    return unit if off[unit] < 2 * _OFF else None


def _right(*, autocast, recompute, **_):
    """How many bytes are right for each of what they grow with."""
    if recompute:
        return {_TOKENS: 4}
    return {_TOKENS: 36, _SQUARES: 24} if autocast else {_TOKENS: 64}


def _counts(case, rank):
    """How many bytes an answer counts for each of what bytes may grow with.

    That is found from probes, and has to explain the layers that are asked for. None
    for an answer without numbers, nothing for one that is no sum of such terms.
    """
    values = [*rank["probes"], *(layer["returned"] for layer in rank["layers"])]
    found = np.array([number_of(value) for value in values], dtype=float)
    shapes = [*PROBES, *case.given["shapes"]]
    if len(found) != len(shapes) or not (abs(found) < _HUGE).all():
        return None
    main, small = _terms(shapes)
    columns = np.stack([*main.values(), *small])
    probes = columns[:, : len(PROBES)]
    scale = abs(probes).max(1)
    fitted = np.linalg.lstsq(probes.T / scale, found[: len(PROBES)])[0] / scale
    if not np.allclose(fitted @ columns, found, rtol=_EXACT, atol=1):
        return {}
    return {name: round(float(part), 2) + 0.0 for name, part in zip(main, fitted)}


def _terms(shapes):
    """What bytes may grow with, for each shape; a second list makes less than 2 %."""
    batch, length, width, heads = np.array(shapes, dtype=float).T
    tokens = batch * length
    main = {
        _TOKENS: tokens * width,
        _SQUARES: width**2,
        _PAIRS: tokens * length * heads,
        "batch · length²": tokens * length,
        "batch · heads · length · width": tokens * heads * width,
        "batch · width²": batch * width**2,
        "batch · width": batch * width,
        "length · width": length * width,
        "length²": length**2,
    }
    small = tokens, tokens * heads, length, length * heads, batch, width
    return main, (*small, np.ones_like(width))


def _told(counts, right, off):
    """What an answer counts too often or too rarely, in words."""
    parts = [
        f"{counts[name]:,.6g} · {name} bytes ({right.get(name, 0)} are right)"
        for name in off
    ]
    return f"This counts {listed(parts)}. " if parts else ""
