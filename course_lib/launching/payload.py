"""What notebook and ranks send: functions by value, tensors by `torch.save`."""

import importlib
import inspect
import io
import os
import pickle
import sys
import types
from typing import NamedTuple

import cloudpickle
import torch

from course_lib.accelerators import dtensors
from course_lib.errors import UsageError
from course_lib.launching.spec import Request

# a rank's function may put something else in their place
_save, _load = torch.save, torch.load
_PICKLED = pickle.PROTO  # the first byte; of what `torch.save` writes it is "P"


class _Pickler(cloudpickle.Pickler):
    """As cloudpickle's; modules like `torch.backends`, of a class of their own, too.

    Of a DTensor travels what this rank holds: its group ends with the launch.
    """

    def reducer_override(self, thing):
        """Return how `thing` is made; a module is imported by its name."""
        if dtensors.is_dtensor(thing):
            part = dtensors.part_of(thing)
            return type(part), tuple(vars(part).values())
        if isinstance(thing, types.ModuleType) and type(thing) is not types.ModuleType:
            name = thing.__name__
            if sys.modules.get(name) is thing:
                return importlib.import_module, (name,)
        return super().reducer_override(thing)


_PICKLING = types.SimpleNamespace(__name__=__name__, Pickler=_Pickler)


def dump(value, file, *, pickling=_PICKLING) -> None:
    """Write `value` to a binary file; a cell's classes and functions go by value."""
    pickled = io.BytesIO()
    pickler = pickling.Pickler(pickled)
    pickler.persistent_id = _refuse_tensor
    try:
        pickler.dump(value)
    except _HasTensors:
        _save(value, file, pickle_module=pickling)
    else:
        file.write(pickled.getbuffer())


def load(file):
    """Read what `dump` wrote; tensors of a GPU arrive on the CPU."""
    start = file.tell()
    first = file.read(1)
    file.seek(start)
    if first == _PICKLED:
        return pickle.load(file)
    return _load(file, map_location="cpu", weights_only=False)


class _HasTensors(Exception):
    """What is being pickled needs `torch.save`."""


def _refuse_tensor(thing):
    """Refuse what needs `torch.save`: it takes five times as long for a small value."""
    if isinstance(thing, torch.Tensor) or torch.is_storage(thing):
        raise _HasTensors


class _CallPickler(_Pickler):
    """What the notebook's `__main__` holds and travels is in that of the rank, too.

    So a rank can pickle it by name, as a process of a script can.
    """

    def __init__(self, file, protocol=None):
        super().__init__(file, protocol)
        self._names = _variables()
        # functions that share the notebook's variables share those of the rank
        self.globals_ref[id(self._names)] = _Variables()

    def reducer_override(self, thing):
        """Return how `thing` is made; a class or function by value gets its name."""
        reduced = super().reducer_override(thing)
        if reduced is NotImplemented or self._names.get(thing.__name__) is not thing:
            return reduced
        make, arguments, *rest = reduced
        return _define, (thing.__name__, make, arguments), *rest


_CALL = types.SimpleNamespace(__name__=__name__, Pickler=_CallPickler)


class _Variables:
    """Stands for the variables of `__main__`, wherever it arrives."""

    def __reduce__(self):
        return _variables, ()


def _variables():
    return vars(sys.modules["__main__"])


def _define(name, make, arguments):
    thing = _variables()[name] = make(*arguments)
    return thing


def travels(value) -> bool:
    """Return True if `value` can be pickled."""
    try:
        with open(os.devnull, "wb") as nowhere:
            _Pickler(nowhere).dump(value)
    except Exception:
        return False
    return True


class Culprit(NamedTuple):
    """What cannot be pickled, in words; its name if only what is called uses it."""

    words: str
    name: str = ""


def name_culprit(fn, arguments: dict) -> Culprit:
    """Return which of `arguments` (by name) or variables of `fn` cannot be pickled."""
    for name, value in arguments.items():
        if not travels(value):
            if culprit := _called(value, searched={name}):
                return culprit
            name, value = _innermost(name, value)
            return Culprit(f"the argument `{name}` is a {_kind(value)}")
    inner = getattr(fn, "func", fn)  # functools.partial
    is_function = isinstance(inner, types.FunctionType | types.MethodType)
    if is_function and (culprit := _used(inner, searched=set())):
        return culprit
    return Culprit(f"it holds something (it is a {_kind(inner)})")


def _used(fn, searched):
    """Return the first variable of `fn`, or what it calls, that cannot be pickled."""
    first = not searched
    searched.add(fn)
    try:
        variables = inspect.getclosurevars(fn)
    except ValueError:  # a variable of the closure has no value yet
        return None
    within = {n: fn.__globals__[n] for n in _names(fn.__code__) & {*fn.__globals__}}
    for name, value in {**within, **variables.nonlocals}.items():
        if isinstance(value, types.ModuleType) or travels(value):
            continue
        known = isinstance(value, types.FunctionType | type) and value in searched
        if culprit := _called(value, searched):
            return culprit
        if known or isinstance(value, types.FunctionType):
            continue
        if name == "get_ipython":
            return Culprit(f"`{fn.__qualname__}` has a magic or a shell line (% or !)")
        far = "" if first or name not in within else name
        name, value = _innermost(name, value)
        words = f"`{fn.__qualname__}` uses the variable `{name}`, a {_kind(value)}"
        return Culprit(words, far)
    return None


def _called(value, searched):
    """Return what a function, or those of a class or of an object's class, use."""
    if isinstance(value, type):
        searched.add(value)
    for function in _functions(value):
        if function not in searched and (culprit := _used(function, searched)):
            return culprit
    return None


def _functions(value):
    if isinstance(value, types.FunctionType):
        return [value]
    kind = value if isinstance(value, type) else type(value)
    bases = () if travels(kind) else inspect.getmro(kind)
    members = [member for base in bases for member in vars(base).values()]
    plain = [getattr(m, "__func__", getattr(m, "fget", m)) for m in members]
    return [member for member in plain if isinstance(member, types.FunctionType)]


def _innermost(name, value, depth=5):
    """Return the name and the value of what in `value` cannot be pickled."""
    for part, inner in _parts(value) if depth else ():
        if not isinstance(inner, types.ModuleType) and not travels(inner):
            return _innermost(f"{name}{part}", inner, depth - 1)
    return name, value


def _parts(value):
    """Return what is in a list, a dict, an object or a class, by how one gets it."""
    if isinstance(value, dict):
        return [(f"[{key!r}]", inner) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return [(f"[{index}]", inner) for index, inner in enumerate(value)]
    held = getattr(value, "__dict__", {})
    hidden = ("__dict__", "__weakref__")
    return [(f".{n}", inner) for n, inner in held.items() if n not in hidden]


def _names(code):
    """Return the global names in a function, and in what is written inside it."""
    parts = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return {*code.co_names}.union(*map(_names, parts))


def _kind(value):
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def pack(request: Request, *, file) -> None:
    """Write a call for the ranks.

    Errors: `UsageError` that names the argument or variable that cannot travel.
    """
    try:
        dump((request.fn, request.args, request.kwargs), file, pickling=_CALL)
    except Exception as error:
        arguments = {**dict(zip(request.names, request.args)), **request.kwargs}
        culprit = name_culprit(request.fn, arguments)
        raise UsageError(
            f"cannot send {request.name} to the ranks: {culprit.words},"
            f" which cannot be pickled ({error}). {_way_out(request, culprit.name)}"
        ) from None
    file.flush()


def _way_out(request, name):
    if not name:
        return f"Create it inside {request.name} instead."
    return (
        f"Take it out of the notebook (`del {name}`), and create it inside"
        f" {request.name} instead: `global {name}`, then `{name} = ...`."
    )
