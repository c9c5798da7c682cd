"""What launch() was asked for, checked before anything is started."""

import difflib
import inspect
import os
import resource
from dataclasses import dataclass

import torch

from course_lib.errors import UsageError
from course_lib.system import host, linux, processes
from course_lib.text import many

_RESERVED = ("world_size", "trace", "timeout", "nodes")
_RANK_MEMORY = 100 << 20  # bytes a rank needs beside the learner's own tensors
_RANK_FILES = 8


@dataclass(frozen=True)
class Request:
    """A call of launch() that can work; `names` are those of `args` in `fn`."""

    fn: object
    args: tuple
    kwargs: dict
    names: list
    world_size: int
    trace: bool | range
    timeout: float | None
    own_time: bool = False  # a busy machine's time does not count
    nodes: int | None = None

    @property
    def name(self) -> str:
        """The name of the function, for messages."""
        return function_name(self.fn)


def function_name(fn) -> str:
    """Return what to call `fn` in a message: its name, or that of its class."""
    return getattr(fn, "__name__", type(fn).__name__)


def check(
    fn, *, args, world_size, kwargs=None, trace=False, timeout=None, nodes=None
) -> Request:
    """Return the request, if it can work.

    Errors: `UsageError` that says what was given and what to give instead.
    """
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise UsageError(
            f"timeout={timeout!r}: give a number of seconds above 0, or leave it out"
        )
    nodes = _nodes(nodes)
    kwargs = kwargs or {}
    if world_size is None and nodes is not None:
        world_size = max(nodes, torch.cuda.device_count() or 2)
    world_size = _size(world_size)
    if nodes is not None and nodes > world_size:
        raise UsageError(
            f"nodes={nodes} for {many(world_size, 'rank')}: each node needs a rank of"
            f" its own, so give world_size={nodes} or more"
        )
    names = _names(fn, world_size, args=args, kwargs=kwargs)
    window = _window(trace)
    return Request(fn, args, kwargs, names, world_size, window, timeout, nodes=nodes)


def _nodes(nodes):
    """How many nodes, as an int; None where torchrun takes no part."""
    if nodes is None:
        return None
    count = _whole("nodes", nodes, "nodes")
    if count < 1:
        raise UsageError(f"nodes={count}: give at least 1 node")
    if not linux.available():
        raise UsageError(
            f"nodes={count} needs Linux: on this system write the function into a"
            " script, and start torchrun once for each node (docs/launching.md)"
        )
    return count


def _whole(name, value, what):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise UsageError(
            f"{name}={value!r} is a {type(value).__name__}:"
            f" give a whole number of {what}"
        )
    return value.__index__()


def _window(trace):
    """Return what to record: all, nothing, or a range of training steps."""
    if not isinstance(trace, range):
        return bool(trace)
    if not trace or trace.step != 1 or trace.start < 0:
        raise UsageError(
            f"trace={trace} holds no training steps: trace=range(3, 5) are 3 and 4"
        )
    return trace


def _size(world_size):
    if world_size is None:
        return torch.cuda.device_count() or 2
    size = _whole("world_size", world_size, "ranks")
    if size < 1:
        raise UsageError(f"world_size={size}: give at least 1 rank")
    most = most_ranks()
    if size > most:
        raise UsageError(
            f"world_size={size}: this machine can bear {most} ranks now"
            " (memory, open files)"
        )
    return size


def most_ranks() -> int:
    """Return how many ranks this machine can bear, by free memory and open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/dev/fd"))
    by_files = (soft - opened - 64) // _RANK_FILES if soft > 0 else 4096
    return max(1, min(by_files, _free_memory() // _RANK_MEMORY))


def _free_memory():
    usable = host.usable_memory()
    # elsewhere than on Linux nothing tells
    return min(processes.size("/proc/meminfo", "MemAvailable") or usable, usable)


def _names(fn, world_size, *, args, kwargs):
    """Refuse what cannot take rank and world size; the names of `args` come back."""
    if not callable(fn):
        raise UsageError(
            f"launch() needs a function of (rank, world_size), got {fn!r:.60} of type"
            f" {type(fn).__name__}. Write launch(train), not launch(train())."
        )
    try:
        # of a decorated function the outer one is called
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):
        return [f"argument {i}" for i in range(len(args))]
    label = function_name(fn)
    _refuse_reserved(label, signature)
    if list(signature.parameters)[:2] == ["world_size", "rank"]:
        raise UsageError(
            f"{label}{signature} takes world_size first:"
            f" write {label}(rank, world_size)"
        )
    try:
        bound = signature.bind(0, world_size, *args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"{label}{signature} cannot be called as"
            f" {label}(rank, world_size{_more(args, kwargs)}):"
            f" {error}. {_hint(signature, args, kwargs)}"
        ) from None
    names = list(bound.arguments)[2 : 2 + len(args)]
    return names + [f"argument {i}" for i in range(len(names), len(args))]


def _refuse_reserved(label, signature):
    for parameter in list(signature.parameters)[2:]:
        if parameter in _RESERVED:
            raise UsageError(
                f"{label}{signature} has a parameter `{parameter}`,"
                " which launch() keeps for itself: rename it"
            )


def _hint(signature, args, kwargs):
    for key, value in kwargs.items():
        for right in difflib.get_close_matches(key, _RESERVED, 1, 0.8):
            return f"Did you mean {right}={value!r:.20}?"
    if len(args) == 1 and type(args[0]) is int and len(signature.parameters) == 2:
        return f"Write world_size={args[0]} for the number of ranks."
    return "Its first two parameters must be rank and world_size."


def _more(args, kwargs):
    return "".join(
        [*(f", {value!r:.20}" for value in args), *(f", {key}=..." for key in kwargs)]
    )
