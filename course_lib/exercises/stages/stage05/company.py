"""The processes that an answer forks: who is there, who stands still, who holds."""

import json
import mmap
import multiprocessing
import os
import time
import traceback

import numpy

from course_lib.stacks import Frame, is_learners
from course_lib.system import processes

MOST = 64  # processes that are noted
_CALM = 4  # looks in a row, a millisecond apart, at which nobody moved
_LONGEST = 300  # characters of an error that are kept
_BUDGET = 2.0  # seconds in all that is waited for processes that do move
_sleep = time.sleep  # the answer gets another one
_NUMBERS = ("pid", "held", "met", "holding", "napping", "ended", "failed", "reads")
_MORE = ("writes", "bare", "own_lock", "shared_lock", "threads", "most", "above")


class Company:
    """Notes of this process, number 0, and of those forked from now on, shared by all.

    An array of one number for each process stands under each name: `pid`, how often
    it `held`, how often it `met` another there, and so on.
    """

    def __init__(self):
        names = (*_NUMBERS, *_MORE)
        size = 8 * MOST * (len(names) + 1)
        # a map without a file is shared with the processes forked later
        table = numpy.frombuffer(mmap.mmap(-1, size), dtype=numpy.int64)
        table = table.reshape(len(names) + 1, MOST)
        for name, row in zip(names, table):
            setattr(self, name, row)
        self.shared = table[-1]  # number of forks, milliseconds spent
        self.own, self.locks = 0, []
        self.turn = multiprocessing.Lock()  # several may fork at the same time
        self.page = mmap.mmap(-1, 8192)  # the first error of a process
        self.pid[0] = os.getpid()
        os.register_at_fork(before=self._before_fork, after_in_child=self._born)

    @property
    def forks(self) -> int:
        """How many processes were forked."""
        return int(self.shared[0])

    @property
    def children(self) -> list[int]:
        """Numbers of the processes that process 0 forked, not of those below them."""
        return [n for n in range(1, 1 + self.forks) if self.above[n] == 0]

    def column(self, name: str) -> list[int]:
        """The numbers of the forked processes under a name, in the order of forks."""
        return getattr(self, name)[1 : 1 + self.forks].tolist()

    def _before_fork(self):
        with self.turn:
            self.shared[0] = min(self.shared[0] + 1, MOST - 1)
            self.child = int(self.shared[0])
        self.most[0] = max(self.most[0], self.forks - self.ended.sum())

    def _born(self):
        self.above[self.child] = self.own
        self.own = self.child
        self.pid[self.own] = os.getpid()

    def tell(self, error: BaseException) -> bool:
        """Note the error that ends this process; False if another one told the same."""
        steps = traceback.extract_tb(error.__traceback__)
        frames = [Frame(one.filename, one.lineno or 0, one.name) for one in steps]
        own = [frame for frame in frames if is_learners(frame)]
        line = str(error).partition("\n")[0]
        text = f"{type(error).__name__}: {line}"[:_LONGEST]
        with self.turn:
            first = self.told
            if not first:
                said = json.dumps([text, *own[-1:]]).encode()
                self.page[: len(said)] = said
        return not first or first[0] != text

    @property
    def told(self) -> list:
        """The first error of a process, and the answer's line if there is one."""
        said = self.page[:].rstrip(b"\0")
        return json.loads(said) if said else []

    def others(self) -> list[int]:
        """The numbers of the forked processes that still run, but for this one."""
        born = range(1, 1 + self.forks)
        return [n for n in born if n != self.own and _state(self.pid[n]) not in "Z"]

    def seconds(self) -> float:
        """How long the forked processes that are still there have computed."""
        found = [processes.activity(self.pid[n]) for n in range(1, 1 + self.forks)]
        return sum(one.seconds for one in found if one)

    def hold(self) -> bool:
        """Stay until another process holds, too, or none can come; True if one did."""
        own, everyone = self.own, numpy.arange(MOST) != self.own
        self.holding[own] = 1
        self.held[own] += 1
        before = self.held.copy()
        met, calm = bool((self.holding * everyone).any()), 0
        while not met and calm < _CALM:
            _sleep(0.001)
            met = bool(((self.held > before) * everyone).any())
            calm = calm + 1 if self._nobody_moves() else 0
        self.holding[own] = 0
        self.met[own] += met
        return met

    def _nobody_moves(self):
        """True if no other process can come on its own, or it was awaited enough."""
        if self.shared[1] > 1000 * _BUDGET:
            return True
        if self.all_wait(but=self.own):
            return True
        self.shared[1] += 1
        return False

    def all_wait(self, *, but: int) -> bool:
        """True if every process but one sleeps or has ended, and none of them naps."""
        numbers = [n for n in range(1 + self.forks) if n != but]
        return all(
            _state(self.pid[n]) in "SZ" and not self.napping[n] and not self.holding[n]
            for n in numbers
        )

    def held_lock(self) -> int | None:
        """Which of the answer's own locks this process holds: its maker, or None."""
        for maker, lock in self.locks:
            if lock._semlock._is_mine():
                return maker
        return None


def _state(pid):
    """One letter: R runs, S sleeps, Z has ended or is gone, as in /proc/PID/stat."""
    if pid == 0:
        return "R"  # it was forked, and has not noted its number yet
    state = processes.state(pid)
    return state if state in ("S", "R", "D") else "Z"
