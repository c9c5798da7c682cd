"""Exercise 5.1, in a rank: several processes count, each held where it may lose one."""

import dis
import functools
import os
import sys
from multiprocessing.connection import Connection

import numpy
import torch
from torch import ops

from course_lib.exercises.child_processes import (
    AT_STORE,
    AT_WRITE,
    Family,
    Writes,
    arrays,
    of_answer,
    watched,
)
from course_lib.exercises.values import plain

_HELD = 6  # of its first writes, before which a process waits for another
_LATE = 1000  # milliseconds, about, that its first message waits for the parent to wait
# operators that write to all of a tensor, whatever is in it
_OVERWRITING = (ops.aten.copy_, ops.aten.fill_, ops.aten.zero_)
# methods of a manager's queue, by which messages go from one process to another
_QUEUED = ("put", "put_nowait", "get", "get_nowait")
_STORES = ("STORE_SUBSCR", "STORE_ATTR", "STORE_SLICE")


class Counters(Family):
    """What processes bring about outside of themselves, too."""

    stores: numpy.ndarray  # they may be in its own memory
    sent: numpy.ndarray
    taken: numpy.ndarray
    asking: numpy.ndarray  # messages to and from a manager's process, but of queues
    files: numpy.ndarray


def observe(rank, world_size, answer, given):
    """Return what `answer(shares)` returns, and what each of its processes did."""
    shares = given["shares"]
    family = Counters(len(shares))
    _note_messages(family)
    with watched(family, answer), _Splitting(family):
        sys._getframe().f_trace_opcodes = True  # to Python 3.12 before tracing begins
        sys.settrace(functools.partial(_trace, family))
        value = answer(shares)
        sys.settrace(None)
        returned, facts = plain(value), family.facts()
    shared = torch.is_tensor(value) and value.is_shared()
    facts |= {"returned": returned, "shared": shared, "arrays": len(arrays())}
    return facts | family.notes(*Counters.__annotations__)


class _Splitting(Writes):
    """Takes operators that write to shared tensors apart: read, hold, write."""

    def write(self, operator, args, kwargs, targets):
        self.family.note_write("writes")
        if self.family.writes[self.family.own] > _HELD:
            return operator(*args, **kwargs)
        shared = [target.detach() for target in targets]
        before = [target.clone() for target in targets]
        for target, old in zip(targets, before):
            # a copy of the copy: another process may write to the target in between
            target.data = old.clone()
        result = operator(*args, **kwargs)
        changed = [new != old for new, old in zip(targets, before)]
        if any(map(torch.any, changed)):
            self.family.hold(AT_WRITE)
        whole = operator.overloadpacket in _OVERWRITING
        for target, memory, where in zip(targets, shared, changed):
            if whole:
                memory.copy_(target)  # what others have written meanwhile, too
            else:
                memory[where] = target[where]  # the rest may be another process's
            target.data = memory
        return result


def _trace(family, frame, event, _):
    """Hold before each store in lines of the answer, unless it writes to tensors.

    A shared array of NumPy or a `mp.Value` changes by several instructions of Python.
    """
    if not of_answer(frame):
        return None

    def step(frame, event, _):
        stores = event == "opcode" and frame.f_lasti in _stores(frame.f_code)
        if stores and family.own and not family.writes[family.own]:
            family.note_write("stores")
            if family.stores[family.own] <= _HELD:
                family.hold(AT_STORE)
        return step

    # from Python 3.13 on opcodes are traced only for a frame that has its function
    frame.f_trace, frame.f_trace_lines, frame.f_trace_opcodes = step, False, True
    return step


@functools.cache
def _stores(code):
    """Where the instructions of a function stand that change an object."""
    instructions = dis.get_instructions(code)
    return {one.offset for one in instructions if one.opname in _STORES}


def _note_messages(family):
    """Note what goes from one process to another, but by memory: pipes and files."""

    def noted(function, name):
        def noting(*args, **kwargs):
            before = family.sent[family.own] + family.asking[family.own]
            if name == "sent" and family.own and not before:
                family.be_late(_LATE)
            asks = name != "files" and _asks_a_manager(sys._getframe(1))
            family.note("asking" if asks else name)
            return function(*args, **kwargs)

        return noting

    def open_to_write(event, args):
        flags = args[2] if event == "open" else None
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
            family.note("files")

    Connection._send_bytes = noted(Connection._send_bytes, "sent")
    Connection._recv_bytes = noted(Connection._recv_bytes, "taken")
    torch.save = noted(torch.save, "files")  # it opens the file in C++
    sys.addaudithook(open_to_write)


def _asks_a_manager(frame):
    """Return whether a message is of a list, a lock or the like of a manager."""
    while frame and frame.f_globals.get("__name__") != "multiprocessing.managers":
        frame = frame.f_back
    if not frame:
        return False
    called = frame.f_code.co_name == "_callmethod" and frame.f_locals["methodname"]
    return called not in _QUEUED
