"""Writes to shared memory: taken apart into read, hold and write, or kept whole."""

import contextlib
import dis
import functools
import sys

import torch
import torch.multiprocessing as mp
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.exercises.stages.stage05.company import Company
from course_lib.stacks import Frame, is_learners

_STORES = ("STORE_SUBSCR", "STORE_ATTR", "STORE_SLICE")


@contextlib.contextmanager
def splitting(company: Company):
    """Hold each process, in a block, between its reads and writes of shared memory.

    In-place operators of shared tensors are taken apart. A shared array of NumPy or a
    `mp.Value` changes by several instructions of Python, and is held between them.
    """
    before = sys.gettrace()
    with _Splitting(company) as mode:
        sys.settrace(functools.partial(_trace, mode))
        try:
            yield
        finally:
            sys.settrace(before)


class _Mode(TorchDispatchMode):
    """Sees every operator, of which a loader of single samples has thousands."""

    @classmethod
    def _should_skip_dynamo(cls):
        """Let PyTorch not wrap this mode against a compiler: that costs half."""
        return False


class Whole(_Mode):
    """Let one process at a time write to shared tensors, an operator as a whole.

    Two additions at the same moment lose single numbers; that is chance, no mistake.
    Which of the answer's locks a process holds then is noted.
    """

    def __init__(self, company: Company):
        super().__init__()
        self.company, self.lock = company, mp.Lock()

    # PyTorch calls it so
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: PLR0917
        """Run an operator; under the lock if it writes to shared memory."""
        kwargs = kwargs or {}
        if not _written(func, args, kwargs):
            return func(*args, **kwargs)
        note_write(self.company)
        with self.lock:
            return func(*args, **kwargs)


class _Splitting(_Mode):
    def __init__(self, company):
        super().__init__()
        self.company = company

    # PyTorch calls it so
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: PLR0917
        """Run an operator; one that writes to shared memory in its three parts."""
        kwargs = kwargs or {}
        targets = _written(func, args, kwargs)
        if not targets:
            return func(*args, **kwargs)
        private = [one.clone() for one in targets]
        before = [one.clone() for one in targets]
        args, kwargs = _exchanged((args, kwargs), targets, private)
        result = func(*args, **kwargs)
        changed = [new != old for new, old in zip(private, before)]
        if any(map(torch.any, changed)):
            note_write(self.company)
            self.company.hold()
            for target, new, where in zip(targets, private, changed):
                target[where] = new[where]  # the rest may be another process's
        return _exchanged(result, private, targets)


def _exchanged(value, old, new):
    """The same, in tuples, lists and dicts too, with other tensors in their place."""
    if isinstance(value, list | tuple):
        return type(value)(_exchanged(one, old, new) for one in value)
    if isinstance(value, dict):
        return {key: _exchanged(one, old, new) for key, one in value.items()}
    return next((there for here, there in zip(old, new) if here is value), value)


def _written(func, args, kwargs):
    """The shared tensors that an operator changes."""
    found = []
    for number, name in _changed(func):
        value = args[number] if number < len(args) else kwargs.get(name)
        values = value if isinstance(value, list | tuple) else [value]
        found += [v for v in values if torch.is_tensor(v) and v.is_shared()]
    return found


@functools.cache
def _changed(func):
    """Number and name of each argument that an operator changes."""
    arguments = enumerate(func._schema.arguments)
    return [(n, a.name) for n, a in arguments if a.alias_info and a.alias_info.is_write]


def note_write(company: Company) -> None:
    """Count a write to shared memory of this process, and the lock that it holds."""
    maker, own = company.held_lock(), company.own
    company.writes[own] += 1
    if maker is None:
        company.bare[own] += 1
    elif maker == own and own:
        company.own_lock[own] += 1
    else:
        company.shared_lock[own] += 1


def _trace(mode, frame, event, _):
    """Hold before each store in lines of the answer, unless it writes to tensors."""
    if not is_learners(Frame(frame.f_code.co_filename, 0, "")):
        return None
    frame.f_trace_lines, frame.f_trace_opcodes = False, True
    company = mode.company

    def step(frame, event, _):
        stores = event == "opcode" and frame.f_lasti in _stores(frame.f_code)
        if stores and company.own and not company.writes[company.own]:
            company.hold()
        return step

    return step


@functools.cache
def _stores(code):
    """Where the instructions of a function stand that change an object."""
    instructions = dis.get_instructions(code)
    return {one.offset for one in instructions if one.opname in _STORES}
