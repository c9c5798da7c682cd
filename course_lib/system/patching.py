"""Replace an attribute, or variables of the environment, while a block lasts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
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


@contextmanager
def environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Let `os.environ` have these variables in a block; None takes one away."""
    before = {name: os.environ.get(name) for name in variables}
    try:
        _set(variables)
        yield
    finally:
        _set(before)


def _set(variables):
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
