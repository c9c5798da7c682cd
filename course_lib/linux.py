"""The few Linux calls that keep processes from being left behind."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterable
from typing import NamedTuple

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_TIDYING = 0.3  # seconds
_HUGE, _COLLAPSE = 2 << 20, 25  # bytes; MADV_COLLAPSE of Linux 6.1, else refused


def available() -> bool:
    """True where the kernel has what the process server needs (Linux 5.3 or newer)."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        os.close(os.memfd_create("course_lib"))
    except (AttributeError, OSError):
        return False
    return True


def die_with_parent() -> None:
    """Be killed as soon as the process that forked this one is gone."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def write_by_line() -> None:
    """Let what C code prints leave this process at the end of each line."""
    libc, by_line = ctypes.CDLL(None), 1
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, by_line, 0)


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends, daemons included."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def _prctl(option, value):
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def use_huge_pages() -> None:
    """Move this process's own memory into pages of 2 MiB, where the system has them.

    A fork copies the table of pages, not the pages: with large ones it takes a third of
    the time, and so does the end of the forked process.
    """
    madvise = ctypes.CDLL(None).madvise
    with open("/proc/self/maps") as file:
        lines = [line.split() for line in file]
    for span, rights, _, _, inode, *name in lines:
        if rights == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            first, last = (int(address, 16) for address in span.split("-"))
            # page by page, since one that cannot be moved ends the call
            for start in range(-(-first // _HUGE) * _HUGE, last - _HUGE + 1, _HUGE):
                madvise(ctypes.c_void_p(start), ctypes.c_size_t(_HUGE), _COLLAPSE)


def children(of: int | None = None) -> list[int]:
    """The process ids of the children of a process, of this one if none is named."""
    of = of or os.getpid()
    names = _names("/proc")
    return [int(name) for name in names if name.isdigit() and _parent(name) == of]


def _names(folder):
    try:
        return os.listdir(folder)
    except OSError:  # the process has ended, or this is not Linux
        return []


def catches(pid: int, number: int) -> bool:
    """True if a process has a handler for this signal, which would end it otherwise."""
    try:
        with open(f"/proc/{pid}/status") as file:
            fields = dict(line.split(":", 1) for line in file)
    except OSError:
        return False
    return bool(int(fields["SigCgt"], 16) >> (number - 1) & 1)


def _parent(pid):
    try:
        return int(_fields(f"/proc/{pid}/stat")[1])
    except OSError:
        return None


def _fields(path):
    """State, parent and the rest of a file `stat` of proc(5)."""
    with open(path) as file:
        # the name in parentheses may itself hold spaces and parentheses
        return file.read().rpartition(")")[2].split()


class Activity(NamedTuple):
    """The state of a process's main thread, and how long all its threads computed."""

    state: str  # of proc(5): R runs, S sleeps, T is stopped; D if any waits for a disk
    seconds: float


def activity(pid: int) -> Activity | None:
    """What a process does now; None if it has ended, or this is not Linux."""
    states, nanoseconds = {}, 0
    for thread in _names(f"/proc/{pid}/task"):
        folder = f"/proc/{pid}/task/{thread}"
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            states[int(thread)] = _fields(f"{folder}/stat")[0]
            with open(f"{folder}/schedstat") as file:
                nanoseconds += int(file.read().split()[0])
    state = "D" if "D" in states.values() else states.get(pid)
    return Activity(state, nanoseconds / 1e9) if state else None


def kill_children(leaders: list[int]) -> None:
    """Kill `leaders`, then every other child and what they leave, to the last."""
    for pid in leaders:
        _kill(pid)
    # what tidies up shared memory after its process needs a moment for it
    until = time.monotonic() + _TIDYING
    while _reap() and time.monotonic() < until:
        time.sleep(0.005)
    # orphans come to us when their parent ends, daemons of other sessions too
    while _reap():
        for pid in children():
            _kill(pid)
        os.waitpid(-1, 0)


def kill_orphans(own: Iterable[int]) -> None:
    """Kill every child but our `own`, and what these leave, to the last."""
    while orphans := set(children()) - set(own):
        for pid in orphans:
            _kill(pid)
        for pid in orphans:
            os.waitpid(pid, 0)


def _kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _reap():
    """Take note of all children that have ended; True while others live."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
