"""An answer under watch: it cannot wait for ever, nor leave a process behind."""

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from multiprocessing import process, synchronize

from course_lib.exercises.attempt import Wrong
from course_lib.exercises.stages.stage05.company import Company
from course_lib.stacks import Frame, is_learners, place
from course_lib.system import processes

_STUCK = 4  # looks in a row, half a second apart, at which all stand still


class Stuck(BaseException):
    """All processes of an answer wait for each other."""


@contextlib.contextmanager
def watched(company: Company, answer, folder: str):
    """Note in a block who naps, locks and ends, and raise `Stuck` if nobody moves.

    Afterwards all processes that were forked have ended.
    """
    tempfile.tempdir = folder  # sockets of queues, which a killed process leaves
    changed = [
        replace(time, sleep=_nap(company), answer=answer),
        replace(
            threading,
            Lock=_thread_lock(company, threading.Lock),
            RLock=_thread_lock(company, threading.RLock),
            answer=answer,
        ),
        replace(synchronize.SemLock, __init__=_locked(company)),
        replace(process.BaseProcess, _bootstrap=_ended(company)),
    ]
    signal.signal(signal.SIGALRM, _look(company))
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    try:
        yield
    except Stuck as stuck:
        _cut(stuck.__traceback__)
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for put_back in changed:
            put_back()
        for pid in processes.children():
            os.kill(pid, signal.SIGKILL)


def refuse_unfinished(seen: dict, what: str) -> None:
    """Raise `Wrong` if processes still ran when the answer returned, or failed.

    `what` says what is wrong about that.
    """
    if seen["running"]:
        raise Wrong(
            f"{seen['running']} of {seen['forks']} processes still ran at the return",
            f"start() does not wait: {what}. Call join() on every process.",
        )
    if any(seen["failed"]):
        text, *where = seen["told"] or ["they left by an exit code"]
        where = "".join(f", {place(Frame(*frame))}" for frame in where)
        raise Wrong(
            f"{sum(seen['failed'])} of {seen['forks']} processes failed: {text}{where}",
            "What they raised is shown above. The parent does not raise it: join()"
            " returns, however a process ended.",
        )


def refuse_one_by_one(seen: dict) -> None:
    """Raise `Wrong` if no two processes ran at the same time."""
    if seen["most"] < 2:
        raise Wrong(
            f"{seen['forks']} processes ran one after the other, expected all at once",
            "The numbers are right. A join() right after start() waits for each"
            " process before the next one starts: first start all, then join all.",
        )


def refuse_floats(counts: list) -> None:
    """Raise `Wrong` if counts, right ones, are floating-point numbers."""
    if any(isinstance(number, float) for number in counts):
        raise Wrong(
            "the counts are floating-point numbers, expected i64[10]",
            "The numbers are right, as they are small. In float32 adding 1 to"
            " 16,777,216 changes nothing: count with dtype=torch.int64.",
        )


def replace(owner, *, answer=None, **new):
    """Put functions in the place of others, also where the answer imported those.

    What comes back puts all of them back.
    """
    old = {name: getattr(owner, name) for name in new}
    own = getattr(answer, "__globals__", {})
    names = [(key, name) for key in own for name in old if own[key] is old[name]]

    def put(functions):
        own.update({key: functions[name] for key, name in names})
        for name, function in functions.items():
            setattr(owner, name, function)

    put(new)
    return lambda: put(old)


def _look(company):
    """What looks twice a second, in the parent alone, whether anything has moved."""
    looks, before, theirs = 0, 0.0, 0.0

    def look(*_):
        nonlocal looks, before, theirs
        if company.own:  # a forked process has no timer, but may send the signal
            return
        # on a busy machine they may move between two looks, and sleep at both
        others = company.seconds()
        spent = time.process_time() + processes.runnable(os.getpid())
        busy = company.napping[0] or company.holding[0] or others != theirs
        still = company.all_wait(but=0) and not busy
        looks = looks + 1 if still and spent - before < 0.1 else 0
        before, theirs = spent, others
        if looks >= _STUCK:
            raise Stuck(_who_waits(company))

    return look


def _who_waits(company):
    count = len(company.others())
    if count > 1:
        who = f"{count} processes and the one that started them wait"
    elif count:
        who = "a process and the one that started it wait"
    else:
        who = "the processes have ended, and the one that started them waits"
    taken = any(lock._semlock._is_zero() for _, lock in company.locks)
    return f"{who} for ever{', and a lock is taken' * taken}"


def _nap(company):
    sleep = time.sleep

    def nap(seconds):
        company.napping[company.own] = 1
        try:
            sleep(seconds)
        finally:
            company.napping[company.own] = 0

    return nap


def _thread_lock(company, make):
    def noting():
        company.threads[company.own] += _asked_by_answer(2)
        return make()

    return noting


def _locked(company):
    init = synchronize.SemLock.__init__

    def noting(lock, *args, **kwargs):
        init(lock, *args, **kwargs)
        # from here Lock.__init__, context.Lock, and who called that
        if _asked_by_answer(4):
            company.locks.append((company.own, lock))

    return noting


def _ended(company):
    bootstrap = process.BaseProcess._bootstrap

    def noting(worker, *args, **kwargs):
        # this process is a fork: what it changes is its own
        traceback.print_exc = _telling(company, traceback.print_exc)
        code = bootstrap(worker, *args, **kwargs)
        company.ended[company.own], company.failed[company.own] = 1, code != 0
        return code

    return noting


def _telling(company, show):
    """What prints an error that no other process has printed."""

    def print_exc(*args, **kwargs):
        if company.tell(sys.exc_info()[1]):
            show(*args, **kwargs)

    return print_exc


def _asked_by_answer(above):
    """True if the function so many calls above this one is the learner's."""
    code = sys._getframe(above).f_code
    return is_learners(Frame(code.co_filename, 0, ""))


def _cut(traceback):
    """End a traceback at the last line of the answer: the rest is of this module."""
    last = traceback
    while traceback:
        code = traceback.tb_frame.f_code
        if is_learners(Frame(code.co_filename, 0, "")):
            last = traceback
        traceback = traceback.tb_next
    last.tb_next = None
