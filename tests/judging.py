"""Values that an answer may give instead of a right one, put in place of what was seen.

A judge gets plain data. Counts stay counts and tensors stay tensors, of whatever size
and number; what an answer returned may become anything at all.
"""

import contextlib
import copy
import math
import random

import torch

from course_lib.exercises.values import plain


class Liar:
    """Says that it is equal to all, and raises whenever it is used."""

    def __eq__(self, other):
        return True

    __hash__ = None

    def __float__(self):
        raise RuntimeError("no number")

    def __repr__(self):
        raise RuntimeError("no text")


class LyingFloat(float):
    """A number that is equal to every other, and smaller and larger."""

    def __eq__(self, other):
        return True

    __le__ = __ge__ = __lt__ = __gt__ = __ne__ = __eq__
    __hash__ = None


class LyingList(list):
    """A list that shows other contents whenever it is asked."""

    def __iter__(self):
        return iter([1, 2, 3])

    def __len__(self):
        return 3


_NUMBERS = (math.nan, math.inf, -math.inf, 0, -1, 1, 0.0, -0.0, 1e308, 10**400, 1e-320)
_GONE = (LookupError, TypeError, RuntimeError, ValueError)  # of a place that is no more
_OTHERS = (None, True, False, "", "nan", "3", b"3", 1j, Liar(), LyingFloat(2), object)


def value(numbers: random.Random, depth: int = 3):
    """Anything, as plain data: how it comes back from a rank."""
    return plain(_value(numbers, depth))


def _value(numbers, depth):
    kind = numbers.randrange(5 + 3 * (depth > 0))
    if kind < 2:
        return numbers.choice(_NUMBERS) if kind else numbers.uniform(-99, 99)
    if kind == 2:
        return numbers.randint(-9, 99)
    if kind == 3:
        return numbers.choice(_OTHERS)
    if kind == 4:
        return _tensor(numbers)
    parts = [_value(numbers, depth - 1) for _ in range(numbers.randrange(5))]
    if kind == 5:
        return {str(i): part for i, part in enumerate(parts)}
    return numbers.choice((list, tuple, LyingList))(parts)


def _tensor(numbers):
    shape = [numbers.randrange(4) for _ in range(numbers.randrange(3))]
    fill = numbers.choice((0.0, 1.0, math.nan, math.inf, 1e30))
    kinds = (torch.float32, torch.float16, torch.float64, torch.complex64)
    exact = torch.full(shape, numbers.choice((0, 1, 7)))
    inexact = torch.full(shape, fill, dtype=torch.float64).to(numbers.choice(kinds))
    return numbers.choice((exact, inexact))


class Seen(list):
    """What ranks returned, and the trace and the meter of their launch."""

    trace = meter = None


def changed(seen, places: list, numbers: random.Random) -> Seen:
    """What was seen, with up to three things in it replaced; `seen` stays as it is."""
    parts = list(seen)
    for path, free in numbers.sample(places, min(len(places), numbers.randint(1, 3))):
        with contextlib.suppress(*_GONE):
            parts = _replaced(parts, path, numbers=numbers, free=free)
    found = Seen(parts)
    for name in ("trace", "meter"):
        setattr(found, name, getattr(seen, name, None))
    return found


def places(seen: list) -> list:
    """The path to each place in what was seen, and whether anything may stand there."""
    return list(_places(list(seen)))


def _places(holder, path=(), *, free=False):
    for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
        if key == "baseline":  # what a check measures for itself
            continue
        part, any_value = holder[key], free or key == "returned"
        if isinstance(part, dict | list) and part:
            yield from _places(part, (*path, key), free=any_value)
        if any_value or isinstance(part, int | float | list | torch.Tensor):
            yield (*path, key), any_value


def _replaced(holder, path, *, numbers, free):
    """A nested value with another one at the end of the path, the rest shared."""
    if not path:
        return value(numbers) if free else _like(holder, numbers)
    first, *rest = path
    holder = copy.copy(holder)
    holder[first] = _replaced(holder[first], rest, numbers=numbers, free=free)
    return holder


def _like(part, numbers):
    """Another value of the same kind: a count, a number, a list, a tensor."""
    if isinstance(part, bool):
        return not part
    if isinstance(part, int):
        return numbers.choice((0, 1, part - 1, part + 1, 2 * part, 10**12))
    if isinstance(part, float):
        return numbers.choice((0.0, math.nan, math.inf, -math.inf, 1e300, -part))
    if isinstance(part, list):
        return numbers.choice((part[:-1], part + part[:1], [], part[::-1]))
    if isinstance(part, torch.Tensor):
        return _other_numbers(part, numbers)
    return part


def _other_numbers(part, numbers):
    if not part.is_floating_point():
        return numbers.choice((part * 0, part + 1, part[:0] if part.dim() else part))
    fill = numbers.choice((0.0, math.nan, math.inf, 1e30, 1e-30))
    same = torch.full(part.shape, fill, dtype=torch.float64).to(part.dtype)
    return numbers.choice((same, -part, part.double(), part.flatten()[:0], part.half()))
