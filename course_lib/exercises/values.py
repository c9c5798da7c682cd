"""What an answer returned, as plain data: nothing in it can compute, lie or raise."""

import itertools
import math
import numbers
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import torch

from course_lib.text import short

_DEPTH = 6  # of lists in lists; no answer needs more
_COUNT = 10_000  # of things in one list


@dataclass(frozen=True)
class Other:
    """A value that is no number, text, list, dict or tensor: what it is called."""

    text: str

    def __repr__(self):
        return self.text


def plain(value, depth: int = _DEPTH):
    """Return a value by its exact built-in type; what has none is an `Other`.

    Tensors come to the CPU without their graph. Sets, ranges and arrays become lists,
    fractions and decimals floats.
    """
    try:
        return _plain(value, depth)
    except Exception:  # its own methods were asked
        return Other(f"a {type(value).__name__}")


def _plain(value, depth):
    if value is None or value is True or value is False:
        return value
    if isinstance(value, torch.Tensor):
        tensor = torch.Tensor.as_subclass(value, torch.Tensor)
        return tensor.detach().cpu().clone()
    if isinstance(value, np.ndarray):
        value = np.ndarray.tolist(value)
    if isinstance(value, str):
        return str.__add__(value, "")
    if isinstance(value, numbers.Number):
        return _number(value)
    if isinstance(value, torch.nn.Module):
        return Other(f"a {type(value).__name__}")
    if depth and isinstance(value, dict):
        items = list(dict.items(value))[:_COUNT]
        return {_key(key): plain(part, depth - 1) for key, part in items}
    if depth and isinstance(value, tuple):
        return tuple(_parts(tuple.__iter__(value), depth))
    if depth and isinstance(value, list):
        return _parts(list.__iter__(value), depth)
    if depth and isinstance(value, set | frozenset | range):
        return _parts(value, depth)
    return Other(re.sub(" at 0x[0-9a-f]+", "", short(value)))


def _parts(values, depth):
    return [plain(part, depth - 1) for part in itertools.islice(values, _COUNT)]


def _number(value):
    if isinstance(value, int):
        return int.__add__(value, 0)
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    if hasattr(value, "item"):  # NumPy's
        value = value.item()
    if isinstance(value, Fraction | Decimal):
        value = float(value)
    exact = type(value) in (bool, int, float)
    return value if exact else Other(short(value))


def _key(key):
    key = plain(key, 0)
    return key if isinstance(key, str | int | float | bool | None) else short(key)


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
