"""What notebook and ranks send: functions by value, tensors by `torch.save`."""

import importlib
import inspect
import io
import linecache
import os
import pickle
import sys
import types

import cloudpickle
import torch

from course_lib.errors import UsageError
from course_lib.launching.protocol import Surroundings
from course_lib.launching.spec import Request

# a rank's function may put something else in their place
_save, _load = torch.save, torch.load
_PICKLED = pickle.PROTO  # the first byte; of what `torch.save` writes it is "P"


class _Pickler(cloudpickle.Pickler):
    """As cloudpickle's; modules like `torch.backends`, of a class of their own, too."""

    def reducer_override(self, thing):
        """Return how `thing` is made; a module is imported by its name."""
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


def name_culprit(fn, arguments: dict) -> str:
    """Say which of `arguments` (by name) or variables of `fn` cannot be pickled."""
    for name, value in arguments.items():
        if not travels(value):
            return f"the argument `{name}` is a {_kind(value)}"
    inner = getattr(fn, "func", fn)  # functools.partial
    is_function = isinstance(inner, types.FunctionType | types.MethodType)
    if is_function and (culprit := _used(inner, functions=set())):
        return culprit
    return f"it holds something (it is a {_kind(inner)})"


def _used(fn, functions):
    """Return the first variable of `fn`, or what it calls, that cannot be pickled."""
    functions.add(fn)
    try:
        variables = inspect.getclosurevars(fn)
    except ValueError:  # a variable of the closure has no value yet
        return None
    within = {n: fn.__globals__[n] for n in _names(fn.__code__) & {*fn.__globals__}}
    for name, value in {**within, **variables.nonlocals}.items():
        if isinstance(value, types.ModuleType) or travels(value):
            continue
        if isinstance(value, types.FunctionType):
            if value not in functions and (culprit := _used(value, functions)):
                return culprit
        elif name == "get_ipython":
            return f"`{fn.__qualname__}` has a magic or a shell line (% or !)"
        else:
            return f"`{fn.__qualname__}` uses the variable `{name}`, a {_kind(value)}"
    return None


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
            f"cannot send {request.name} to the ranks: {culprit},"
            f" which cannot be pickled ({error})."
            f" Create it inside {request.name} instead."
        ) from None
    file.flush()


def surroundings() -> Surroundings:
    """Return what of this process the ranks take on."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        folder = None
    # the entries of cells have no time of change; without them no line could be shown
    sources = {
        name: entry
        for name, entry in linecache.cache.items()
        if len(entry) > 1 and entry[1] is None
    }
    virtual = sys.modules.get("course_lib.accelerators.virtual")
    devices = virtual.machine.options if virtual else None
    return Surroundings(dict(os.environ), sys.path, folder, sources, devices)
