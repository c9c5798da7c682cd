"""What notebook and ranks send: functions by value, tensors by `torch.save`."""

import inspect
import types

import cloudpickle
import torch

from course_lib.errors import UsageError


def dump(value, file) -> None:
    """Write `value` to a binary file; a cell's classes and functions go by value."""
    torch.save(value, file, pickle_module=cloudpickle)


def load(file):
    """Read what `dump` wrote; tensors of a GPU arrive on the CPU."""
    return torch.load(file, map_location="cpu", weights_only=False)


class _Nowhere:
    """A file that forgets: pickling into it shows whether a value can travel."""

    def write(self, data):
        return len(data)


def travels(value) -> bool:
    """True if `value` can be pickled."""
    try:
        cloudpickle.Pickler(_Nowhere()).dump(value)
    except Exception:
        return False
    return True


def name_culprit(fn, arguments: dict) -> str:
    """Which of `arguments` (by name) or variables that `fn` uses cannot be pickled."""
    for name, value in arguments.items():
        if not travels(value):
            return f"the argument `{name}` is a {_kind(value)}"
    return _used(fn, seen=set()) or f"{fn.__qualname__} itself is a {_kind(fn)}"


def _used(fn, seen):
    """The first variable of `fn`, or of functions it calls, that cannot be pickled."""
    seen.add(fn)
    variables = inspect.getclosurevars(fn)
    for name, value in {**variables.globals, **variables.nonlocals}.items():
        if isinstance(value, types.ModuleType) or travels(value):
            continue
        if isinstance(value, types.FunctionType):
            found = None if value in seen else _used(value, seen)
            if found:
                return found
        else:
            return f"`{fn.__qualname__}` uses the variable `{name}`, a {_kind(value)}"
    return None


def _kind(value):
    kind = type(value)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def pack(fn, args, kwargs, *, names: list[str], file) -> None:
    """Write a call for the ranks; what cannot travel is named (`names`: of `args`)."""
    try:
        dump((fn, args, kwargs), file)
    except Exception as error:
        arguments = {**dict(zip(names, args)), **kwargs}
        raise UsageError(
            f"cannot send {fn.__qualname__} to the ranks:"
            f" {name_culprit(fn, arguments)}, which cannot be pickled ({error})."
            f" Create it inside {fn.__qualname__} instead."
        ) from None
