"""Replace an attribute of a module or class for as long as a block lasts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps


def patch(stack: ExitStack, place: tuple, around: Callable) -> None:
    """Let `around(original, ...)` be called for an attribute until the stack closes."""
    owner, name = place
    original = getattr(owner, name)
    # the entry itself, since pybind's methods look different through the class
    stack.callback(setattr, owner, name, vars(owner)[name])

    @wraps(original)
    def patched(*args, **kwargs):
        return around(original, *args, **kwargs)

    setattr(owner, name, patched)
