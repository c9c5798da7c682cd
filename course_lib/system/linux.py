"""The few Linux calls that keep processes from being left behind."""

import contextlib
import ctypes
import functools
import itertools
import mmap
import os
import signal
import time
from collections.abc import Iterable, Iterator

from course_lib.system import processes

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_TIDYING = 5.0  # seconds at most: a Python that tidies up may just be starting
_HUGE, _COLLAPSE = 2 << 20, 25  # bytes; MADV_COLLAPSE of Linux 6.1, else refused
_TOGETHER = 64 << 20  # bytes
_PIECE = 512 - 33  # bytes; with its head the largest that Python counts as small
_NUMBERS = (1 << 22) + 1  # no process has a larger one (pid_max in man 5 proc)
_pieces: list[bytes] = []


def available() -> bool:
    """Return True where the kernel has what the fork server needs (Linux 5.3)."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        os.close(os.memfd_create("course_lib"))
    except (AttributeError, OSError):
        return False
    return True


@functools.cache
def libc() -> ctypes.CDLL:
    """Return the C library, looked up once: forked processes have it, too."""
    return ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Be killed as soon as the process that forked this one is gone."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def write_by_line() -> None:
    """Let what C code prints leave this process at the end of each line."""
    stdout = ctypes.c_void_p.in_dll(libc(), "stdout")
    by_line = 1
    libc().setvbuf(stdout, None, by_line, 0)


def meet_without_files() -> None:
    """Let processes of multiprocessing meet at sockets that have no file.

    DataLoader workers that are killed would leave theirs in the temporary folder.
    """
    from multiprocessing import connection

    usual = connection.arbitrary_address
    numbers = itertools.count()

    def arbitrary_address(family):
        if family != "AF_UNIX":
            return usual(family)
        return f"\0course_lib-{os.getpid()}-{next(numbers)}"

    connection.arbitrary_address = arbitrary_address


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends, daemons included."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def _prctl(option, value):
    if libc().prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def keep_together() -> None:
    """Let Python's next small objects lie in one piece, where large pages fit them.

    Otherwise each megabyte of them lies between two libraries that were loaded.
    """
    if _pieces:
        return
    # a list that grew would lie between them
    pieces = [b""] * (_TOGETHER >> 9)
    for i in range(len(pieces)):
        pieces[i] = bytes(_PIECE)
    _pieces.extend(pieces[::500])  # a piece in each part, or it would be given back


def use_huge_pages() -> Iterator[None]:
    """Move this process's own memory into pages of 2 MiB, where the system has them.

    A fork copies the table of pages, not the pages: with large ones it takes a third of
    the time, and so does the end of the forked process. It goes on page by page, with
    milliseconds for each.
    """
    madvise = libc().madvise
    with open("/proc/self/maps") as file:
        lines = [line.split() for line in file]
    for span, rights, _, _, inode, *name in lines:
        if rights == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            first, last = (int(address, 16) for address in span.split("-"))
            # page by page, since one that cannot be moved ends the call
            for start in range(-(-first // _HUGE) * _HUGE, last - _HUGE + 1, _HUGE):
                madvise(ctypes.c_void_p(start), ctypes.c_size_t(_HUGE), _COLLAPSE)
                yield


class Forks:
    """The numbers of processes that are forked from this one, and from those, from now.

    This process becomes the parent of those that lose theirs, in a session of its own.
    Each notes itself, so that it is known whoever waits for its end. What is started as
    a program of its own does not. Pages of the memory that nobody writes take nothing.
    """

    def __init__(self):
        os.setsid()
        adopt_orphans()
        self._noted = mmap.mmap(-1, _NUMBERS)
        self._since = time.time()
        self._first = os.getpid()
        os.register_at_fork(after_in_child=self._note)

    def _note(self):
        self._noted[os.getpid()] = 1
        if os.getppid() != self._first:
            self._noted[0] = 1

    def __contains__(self, pid: object) -> bool:
        if not isinstance(pid, int) or not 0 < pid < len(self._noted):
            return False
        return bool(self._noted[pid])

    def end(self, alone: int | None = None) -> None:
        """Kill all children, and remove what they have shared and left behind.

        Where only `alone` processes were forked, which forked none, there is nothing:
        a rank alone shares nothing.
        """
        family = kill_children()
        forked_more = bool(self._noted[0])
        if alone is None or len(family) > alone or forked_more:
            processes.remove_leftovers(family, self._since, self)


def kill_children() -> set[int]:
    """Kill every child, daemons too, and give back the numbers of all there were."""
    family = set()
    # what tidies up shared memory needs a moment for it, once all others are gone
    until = time.monotonic() + _TIDYING
    while _reap(family) and time.monotonic() < until:
        for pid in processes.descendants():
            family.add(pid)
            if not processes.tidies(pid):
                _kill(pid)
        time.sleep(0.005)
    # orphans come to us when their parent ends
    while _reap(family):
        for pid in processes.children():
            _kill(pid)
        # one that the loop above had no time to see: it may have shared something
        family.add(os.waitpid(-1, 0)[0])
    return family


def kill_orphans(children: Iterable[int]) -> None:
    """Kill every child but these `children`, and what these leave, to the last."""
    while orphans := set(processes.children()) - set(children):
        for pid in orphans:
            _kill(pid)
        for pid in orphans:
            os.waitpid(pid, 0)


def _kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _reap(ended):
    """Add the children that have ended to a set; True while others live."""
    try:
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            ended.add(pid)
    except ChildProcessError:
        return False
    return True
