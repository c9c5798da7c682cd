"""The processes that an answer forks: who is there, who stands still, who holds.

The rank is process 0. All of this stays patched: a rank ends with its exercise.
`launching/watchdog` does not serve here: it asks a rank where it is from the first
process group on, and these have none; they wait in multiprocessing.
"""

import contextlib
import ctypes
import functools
import math
import mmap
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
import typing
from multiprocessing import heap, popen_fork, process, synchronize

import numpy
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.stacks import Frame, is_learners
from course_lib.system import processes

MOST = 64  # processes that are noted
_CALM = 4  # looks in a row, a millisecond apart, at which nobody moved
_GATHER = 100  # and while the rank may start more processes: it may be slow under load
_BUDGET = 3000  # such looks in all that are waited for processes that do move
_BRIEF = 1  # seconds: a wait with this limit may be too short on another machine
_LAST = 7000  # looks after which a process ends that is not waited for as it should be
_STUCK, _EVERY = 4, 0.5  # looks in a row at which all stand still, seconds apart
# seconds of a look that the rank may compute or wait for a core, as it looks itself
_BUSY = 0.3
_HELPERS = ("multiprocessing.", "torch.utils.")  # modules: managers, loaders
_LONGEST = 300  # characters of an error that are kept
AT_STORE, AT_WRITE = 0, 1  # where a process holds
FORK = multiprocessing.get_context("fork")
_sleep = time.sleep  # the answer gets another one


class Stuck(BaseException):
    """All processes of an answer wait for each other."""


def shared(*shape: int, kind=numpy.int64) -> numpy.ndarray:
    """Return an array of zeros that forked processes share."""
    size = int(numpy.prod(shape)) * numpy.dtype(kind).itemsize
    # a map without a file is shared with the processes forked later
    return numpy.frombuffer(mmap.mmap(-1, size), dtype=kind).reshape(shape)


class Family:
    """Notes on this process, number 0, and on those forked from now on.

    All share them: an array with a number for each process under each name, of which
    a subclass may have more. `expected` is how many processes a right answer starts.
    """

    pid: numpy.ndarray
    began: numpy.ndarray
    ended: numpy.ndarray
    failed: numpy.ndarray
    running: numpy.ndarray
    napping: numpy.ndarray
    helper: numpy.ndarray
    nested: numpy.ndarray  # another one than the rank has forked it
    holding: numpy.ndarray
    met: numpy.ndarray
    writes: numpy.ndarray
    locked: numpy.ndarray
    asked: numpy.ndarray  # how often the rank has, whether it has ended
    awaits: numpy.ndarray  # the process id of the one for whose end it waits

    def __init__(self, expected: int):
        self.expected, self.own, self.locks = expected, 0, []
        for name in typing.get_type_hints(type(self)):
            setattr(self, name, shared(MOST))
        self.counts = shared(3)  # forks, looks while holding, most at a time
        self.turn = FORK.Lock()  # several may fork at the same time
        self.errors = FORK.SimpleQueue()  # holds the first one
        self.held = shared(1 + AT_WRITE, MOST)  # how often, at a store and a write
        self.pid[0] = os.getpid()
        os.register_at_fork(before=self._before_fork, after_in_child=self._born)

    def _before_fork(self):
        with self.turn:
            self.counts[0] = min(self.counts[0] + 1, MOST - 1)
            self.child = self.forks
            self.asked[:] = 0  # each start asks those that were started before
        self.counts[2] = max(self.counts[2], self.forks - self.ended.sum())

    def _born(self):
        self.nested[self.child] = self.own > 0
        self.own = self.child
        self.pid[self.own] = os.getpid()

    @property
    def forks(self) -> int:
        """How many processes were forked."""
        return int(self.counts[0])

    def born(self) -> range:
        """Return the numbers of the forked processes."""
        return range(1, 1 + self.forks)

    def note(self, name: str) -> None:
        """Add 1 to a number of this process."""
        getattr(self, name)[self.own] += 1

    def notes(self, *names: str) -> dict[str, list[int]]:
        """Return what was noted of each process, the rank first."""
        return {n: getattr(self, n)[: 1 + self.forks].tolist() for n in names}

    def state(self, number: int) -> str:
        """Return one letter: R runs, S sleeps, Z has ended or is gone, as in /proc."""
        if not self.pid[number]:
            return "R"  # it was forked, and has not noted its number yet
        return processes.state(self.pid[number]) or "Z"

    def moves(self, number: int) -> bool:
        """Return whether a process goes on without another one that brings it on."""
        here = self.napping[number] or self.holding[number]
        return bool(here) or self.state(number) not in "SZ"

    def gather(self) -> None:
        """Stay until all processes are started, or the rank starts no more for now."""
        calm = 0
        while self.forks < self.expected and calm < _GATHER:
            _sleep(0.001)
            calm = 0 if self.moves(0) else calm + 1

    def polls(self) -> bool:
        """Return whether the rank asks one process over and over if it has ended."""
        return self.asked.max() > 1

    def be_late(self, longest: int, *, ends: bool = False) -> None:
        """Stay until the rank waits without a short limit, or polls, or goes on.

        A process that `ends` stays, too, while the rank waits for the end of others.
        """
        calm = looks = 0
        while calm < _CALM and looks < longest and not self.polls():
            _sleep(0.001)
            others = ends and self.awaits[0] and os.getpid() not in self.awaits
            calm, looks = 0 if others or self.moves(0) else calm + 1, looks + 1

    def hold(self, where: int) -> None:
        """Stay until another process holds, too, or none can come.

        At a store anyone will do: the next may be the write at which they wait. At a
        write only others at a write, as stores may be in a process's own memory.
        """
        own, others = self.own, numpy.arange(MOST) != self.own
        self.holding[own] = 1 + where
        self.held[where, own] += 1
        before = self.held[where:, others]
        met, calm = bool((self.holding > where)[others].any()), 0
        while not met and calm < _CALM and self.counts[1] < _BUDGET:
            _sleep(0.001)
            met = bool((self.held[where:, others] > before).any())
            # the rank itself does not come, but it may still start others
            first = int(self.forks >= self.expected)
            calm += 1
            if any(self.moves(n) for n in range(first, 1 + self.forks) if n != own):
                calm = 0
                self.counts[1] += 1
        self.holding[own] = 0
        self.met[own] += met

    @contextlib.contextmanager
    def nap(self, naps: bool = True):
        """Note in a block whether this process goes on by itself, and soon."""
        self.napping[self.own] = naps
        try:
            yield
        finally:
            self.napping[self.own] = 0

    def locking(self) -> bool:
        """Return whether this process holds a lock of the answer's now."""
        return any(lock._semlock._is_mine() for lock in self.locks)

    def note_write(self, name: str) -> None:
        """Note one of the `writes` or `stores`, and whether a lock is held at it."""
        self.note(name)
        self.locked[self.own] += self.locking()

    def tell(self, error: BaseException) -> None:
        """Note the error that ends this process, unless one is noted already."""
        steps = traceback.extract_tb(error.__traceback__)
        own = [step[:3] for step in steps if is_learners(Frame(*step[:3]))]
        line = f"{type(error).__name__}: {error}".partition("\n")[0][:_LONGEST]
        with self.turn:
            if self.errors.empty():
                self.errors.put([line, *own[-1:]])

    def facts(self) -> dict:
        """Return what every exercise asks of the processes, as plain data."""
        for number in self.born():
            self.running[number] = self.state(number) != "Z"
            # one that raised or was killed noted no end
            gone = self.began[number] and not self.running[number]
            self.failed[number] = gone and not self.ended[number]
        names = ("helper", "failed", "running", "met", "writes", "locked")
        return self.notes(*names) | {
            "told": [] if self.errors.empty() else self.errors.get(),
            "most": int(self.counts[2]),
            # how many each lets in: one, or more if it is a semaphore
            "locks": [lock._semlock._get_value() for lock in self.locks],
        }


@contextlib.contextmanager
def watched(family: Family, answer):
    """Note in a block who naps, locks and ends, and raise `Stuck` if nobody moves.

    Afterwards all processes that were forked have ended.
    """
    replace(answer, time, "sleep", functools.partial(_nap, family))
    popen_fork.Popen.wait = _noted_limit(family, popen_fork.Popen.wait)
    popen_fork.Popen.poll = _noted_poll(family, popen_fork.Popen.poll)
    synchronize.SemLock.__init__ = _noted_lock(family, synchronize.SemLock.__init__)
    process.BaseProcess._bootstrap = _noted_end(family, process.BaseProcess._bootstrap)
    before = signal.signal(signal.SIGALRM, _look(family))
    signal.setitimer(signal.ITIMER_REAL, _EVERY, _EVERY)
    # sockets of queues, which a killed process leaves, lie in a folder
    with tempfile.TemporaryDirectory(prefix="course_lib") as tempfile.tempdir:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            for pid in processes.children():
                os.kill(pid, signal.SIGKILL)


def replace(answer, module, name: str, function) -> None:
    """Let the learner's code find another function, imported by its name or not."""
    before = getattr(module, name)
    variables = getattr(answer, "__globals__", {})
    variables |= {key: function for key, value in variables.items() if value is before}
    setattr(module, name, function)


def _nap(family, seconds):
    with family.nap():
        _sleep(seconds)


def _noted_limit(family, wait):
    def noting(worker, timeout=None):
        family.awaits[family.own] = worker.pid
        try:
            with family.nap((timeout or math.inf) <= _BRIEF):
                return wait(worker, timeout)
        finally:
            family.awaits[family.own] = 0

    return noting


def _noted_poll(family, poll):
    def noting(worker, *flags):
        code = poll(worker, *flags)
        if code is None:
            family.asked[family.pid == worker.pid] += 1
        return code

    return noting


def _noted_lock(family, init):
    def noting(lock, *args, **kwargs):
        init(lock, *args, **kwargs)
        # from here Lock.__init__, context.Lock, and who called that
        if of_answer(sys._getframe(3)):
            family.locks.append(lock)

    return noting


def _noted_end(family, bootstrap):
    def noting(worker, *args, **kwargs):
        family.note("began")
        target = getattr(worker._target, "__module__", "") or ""
        family.helper[family.own] = target.startswith(_HELPERS)
        worker.run = functools.partial(_told, family, worker.run)
        code = bootstrap(worker, *args, **kwargs)
        family.ended[family.own] = code == 0
        return code

    return noting


def _told(family, run):
    family.gather()
    try:
        run()
    except Exception as error:
        family.tell(error)
        sys.exit(1)  # the check shows it, with the learner's lines alone
    family.be_late(_LAST, ends=True)


def _look(family):
    """What looks now and then, in the rank alone, whether anything has moved."""
    looks, spent, theirs = 0, 0.0, 0.0

    def look(*_):
        nonlocal looks, spent, theirs
        if family.own:  # a forked process has no timer, but may send the signal
            return
        now = time.process_time() + processes.runnable(os.getpid())
        # on a busy machine they may move between two looks, and sleep at both
        found = [processes.activity(family.pid[n]) for n in family.born()]
        seconds = sum(one.seconds for one in found if one)
        naps = family.napping[0] and not family.polls()
        busy = now - spent > _BUSY or seconds != theirs or naps
        still = not busy and not any(map(family.moves, family.born()))
        looks = looks + 1 if still else 0
        spent, theirs = now, seconds
        if looks >= _STUCK:
            raise Stuck(_who_waits(family))

    return look


def _who_waits(family):
    who = "the processes have ended, and the one that started them waits"
    if count := sum(family.state(n) != "Z" for n in family.born()):
        who = f"{count} of the processes and the one that started them wait"
    if any(lock._semlock._is_zero() for lock in family.locks):
        return f"{who} for ever, and a lock is taken"
    return f"{who} for ever"


def of_answer(frame) -> bool:
    """Return whether a frame is of the learner's code."""
    return is_learners(Frame(frame.f_code.co_filename, 0, ""))


class Writes(TorchDispatchMode):
    """Calls `write` for an operator that changes shared tensors, else `compute`."""

    def __init__(self, family: Family):
        super().__init__()
        self.family = family

    @classmethod
    def _should_skip_dynamo(cls):
        """Let PyTorch not wrap this mode against a compiler: that costs half."""
        return False

    # PyTorch calls it so
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        targets = _changed(operator, args, kwargs)
        if targets:
            return self.write(operator, args, kwargs, targets)
        return self.compute(operator, args, kwargs)

    def compute(self, operator, args, kwargs):
        """Return what an operator that changes nothing shared gives."""
        return operator(*args, **kwargs)


def _changed(operator, args, kwargs):
    """The tensors in shared memory that an operator changes."""
    arguments = operator._schema.arguments if operator._schema.is_mutable else ()
    given = {one.name: value for one, value in zip(arguments, args)} | kwargs
    changed = [a.name for a in arguments if a.alias_info and a.alias_info.is_write]
    found = []
    for value in map(given.get, changed):
        several = value if isinstance(value, list | tuple) else [value]
        found += [one for one in several if torch.is_tensor(one) and _is_shared(one)]
    return found


def _is_shared(tensor):
    """True also in the memory of a `mp.Array`, of which PyTorch does not know."""
    start = tensor.data_ptr()
    return tensor.is_shared() or any(start in one for one in arrays())


def arrays() -> list[range]:
    """Return the memory from which `mp.Array` and `mp.Value` are made, as addresses."""
    arenas = heap.BufferWrapper._heap._arenas
    buffers = [ctypes.c_char.from_buffer(arena.buffer) for arena in arenas]
    starts = map(ctypes.addressof, buffers)
    return [range(at, at + arena.size) for at, arena in zip(starts, arenas)]
