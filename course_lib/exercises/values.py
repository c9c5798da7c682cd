"""What an answer returned, as plain data: nothing in it can compute, lie or raise.

This is the rim of every check: a rank calls `plain` once, and all behind it, the way to
the notebook and the judge, sees no more than `plain` lets through.
"""

import math
import numbers
import re
import types
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import torch

from course_lib.text import many, short

_DEPTH = 6  # of lists in lists; no answer needs more
PARTS = 10_000  # things in all lists of one value
CHARACTERS = 100_000  # of all its texts
BYTES = 2**26  # of all its tensors
_BITS = 4_096  # of a whole number: Python writes out no more than 4,300 digits


@dataclass(frozen=True)
class Other:
    """A value that is no number, text, list, dict or tensor: what it is called."""

    text: str

    def __repr__(self):
        return self.text


def plain(value, depth: int = _DEPTH):
    """Return a value by its exact built-in type; what has none is an `Other`.

    Tensors come to the CPU without their graph. Sets, ranges and arrays become lists,
    fractions and decimals floats. Of a value that is too large, too deep or without
    numbers (on "meta") what is too much becomes an `Other`: it is looked at before
    anything is computed from it.
    """
    return _Room().plain(value, depth)


class _Room:
    """How much one value may still hold, all its parts together."""

    def __init__(self):
        self.parts, self.characters, self.bytes = PARTS, CHARACTERS, BYTES

    def plain(self, value, depth):
        """Return a value as plain data, and take what it needs of the room."""
        try:
            return self._plain(value, depth)
        except Exception:  # its own methods were asked
            return Other(f"a {type(value).__name__}")

    def _plain(self, value, depth):
        if value is None or value is True or value is False:
            return value
        if isinstance(value, torch.Tensor):
            return self._tensor(torch.Tensor.as_subclass(value, torch.Tensor))
        if isinstance(value, np.generic):
            value = np.generic.item(value)
        if isinstance(value, np.ndarray):
            if np.ndarray.size.__get__(value) > self.parts:
                return Other(f"{short(value)}, too long to look at")
            value = np.ndarray.tolist(value)
        if isinstance(value, str):
            return self._text(str.__add__(value, ""))
        if isinstance(value, numbers.Number):
            return _number(value)
        if isinstance(value, torch.nn.Module):
            return Other(f"a {type(value).__name__}")
        if depth and isinstance(value, dict | list | tuple | set | frozenset | range):
            return self._several(value, depth - 1)
        return _other(value)

    def _tensor(self, tensor):
        name = _short_name(tensor)
        if tensor.is_meta:
            return Other(f"{name} on meta, which holds no numbers")
        size = tensor.numel() * tensor.dtype.itemsize
        if size > self.bytes:
            return Other(f"{name}, too large to look at")
        self.bytes -= size
        if tensor.layout != torch.strided:
            tensor = tensor.to_dense()
        if tensor.is_quantized:
            tensor = tensor.dequantize()
        return tensor.detach().cpu().clone()

    def _text(self, text):
        if len(text) > self.characters:
            return Other(f"a text of {many(len(text), 'character')}")
        self.characters -= len(text)
        return text

    def _several(self, values, depth):
        kind = next(one for one in _SEVERAL if isinstance(values, one))
        count = kind.__len__(values)
        if count > self.parts:
            return Other(f"a {kind.__name__} of {count:,}")
        self.parts -= count
        if kind is dict:
            pairs = dict.items(values)
            return {self._key(key): self.plain(part, depth) for key, part in pairs}
        parts = [self.plain(part, depth) for part in kind.__iter__(values)]
        return tuple(parts) if kind is tuple else parts

    def _key(self, key):
        key = self.plain(key, 0)
        exact = isinstance(key, str | int | float | bool | None)
        return key if exact else short(key)


_SEVERAL = (dict, tuple, list, set, frozenset, range)


def _number(value):
    if isinstance(value, int):
        value = int.__add__(value, 0)
        bits = value.bit_length()
        return value if bits <= _BITS else Other(f"a whole number of {bits:,} bits")
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    if isinstance(value, Fraction | Decimal):
        value = float(value)
    exact = type(value) in (bool, int, float)
    return value if exact else Other(short(value))


def _other(value):
    """What is called by its own words, unless it has too many of them."""
    if isinstance(value, types.GeneratorType):
        return Other("a generator")
    if isinstance(value, bytes | bytearray) and len(value) > PARTS:
        return Other(f"{len(value):,} bytes")
    if hasattr(value, "__len__") and len(value) > PARTS:
        return Other(f"a {type(value).__name__} of {len(value):,}")
    return Other(re.sub(" at 0x[0-9a-f]+", "", short(value)))


def _short_name(tensor):
    return short(tensor) if tensor.dim() else f"a number of type {tensor.dtype}"


def number_of(value) -> float | None:
    """Return a finite number or a tensor of one, as a float; None for anything else."""
    if isinstance(value, str | bytes):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def shown(value) -> str:
    """Return a plain value in one line, for a sentence."""
    return value.text if isinstance(value, Other) else short(value)
