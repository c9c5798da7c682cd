"""The agent of a launch starts ranks, serves their store, reports ends, cleans up.

Kernel --link--> agent --fork--> ranks. The link carries one `Start` per rank, and a
`Signal`; back come `RankStarted` and `RankEnded`. When the kernel's side of the link is
closed, for whatever reason, all are killed.
"""

import contextlib
import functools
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from typing import NamedTuple

from course_lib.launching import protocol, rank_process, rendezvous
from course_lib.launching.protocol import (
    Job,
    LaunchBroken,
    Place,
    RankEnded,
    RankStarted,
    Signal,
)
from course_lib.system import linux

_stores = []  # the store: to close it in order takes longer than to start a rank


class Forked(NamedTuple):
    """A process that this one has forked, and a file that is readable at its end."""

    pid: int
    end: int


def main(link: socket.socket, job: list, *, files: list[int], owner: int) -> None:
    """Run one launch in this freshly forked process, which ends here."""
    ranks = {}
    run = functools.partial(_run, link, Job(*job), files=files, owner=owner)
    attend(link, ranks, functools.partial(run, ranks=ranks))


def attend(link: socket.socket, ranks: dict, run) -> None:
    """Be the agent: call `run()`, then end all processes that were started, and this.

    `ranks` holds the process of each rank, by its number, as soon as it is forked.
    """
    forks = linux.Forks()
    try:
        # until a rank can tell where it is, the question must not end it
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        linux.meet_without_files()  # so will the ranks
        sys.breakpointhook = sys.__breakpointhook__  # a kernel's is its debugger's
        run()
    except BaseException:
        protocol.send(link, LaunchBroken(traceback.format_exc()[-8000:]))
    finally:
        try:
            forks.end(alone=len(ranks))
        finally:
            link.close()
            os._exit(0)


def _run(link, job, *, files, owner, ranks):
    listener, setup, body = files
    while len(ranks) < job.world_size:
        message, channel = protocol.receive(link)
        if message is None:
            return
        if isinstance(message, Signal):
            _signal(ranks, message)
            continue
        rank = message.rank
        ends = [other.end for other in ranks.values()]  # of the ranks before it
        place = Place(rank, job)
        be = functools.partial(rank_process.main, place, (setup, body, *channel))
        pid = fork(be, unwanted=(link.fileno(), owner, listener, *ends))
        for file in channel:
            os.close(file)
        ranks[rank] = Forked(pid, os.pidfd_open(pid))
        protocol.send(link, RankStarted(rank, pid))
    _stores.append(rendezvous.serve_store(job.port, listener))
    with selectors.DefaultSelector() as events:
        for rank, forked in ranks.items():
            hear = functools.partial(_end, link, rank, events=events, forked=forked)
            events.register(forked.end, selectors.EVENT_READ, hear)
        watch(events, link, owner=owner, ranks=ranks)


def fork(child, *, unwanted=()) -> int:
    """Fork a process that closes the `unwanted` files, calls `child()` and ends."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        for file in unwanted:
            os.close(file)
        child()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)  # never to become a second agent


def watch(events, link: socket.socket, *, owner, ranks, wait=lambda: None) -> None:
    """Call what `events` hold as it happens, and pass on signals to the ranks.

    Until one returns True, the kernel is gone or closes the link, or nothing happened
    for `wait()` seconds.
    """
    events.register(link, selectors.EVENT_READ, lambda: _hear(link, ranks))
    events.register(owner, selectors.EVENT_READ, lambda: True)
    while happened := events.select(wait()):
        for key, _ in happened:
            if key.data():
                return


def _hear(link, ranks):
    """Do what the kernel says; True if it says no more."""
    message, _ = protocol.receive(link)
    if message is None:
        return True
    _signal(ranks, message)


def _end(link, rank, *, events, forked):
    events.unregister(forked.end)
    report_end(link, rank, forked.pid)


def report_end(link: socket.socket, rank: int, pid: int) -> int:
    """Tell the kernel how a rank ended; the exit code comes back."""
    code = exit_code(pid)
    protocol.send(link, RankEnded(rank, code, time.monotonic()))
    return code


def exit_code(pid: int) -> int:
    """Return how a child that has ended did so: negative for a signal."""
    # the process stays a zombie until the end, so that its number is not used again
    end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert end is not None  # it waits until there is one
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


def _signal(ranks, message):
    for rank in set(message.ranks) & ranks.keys():
        with contextlib.suppress(ProcessLookupError):
            os.kill(ranks[rank].pid, signal.Signals(message.number))
