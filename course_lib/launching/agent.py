"""The agent of a launch starts ranks, serves their store, reports ends, cleans up.

Kernel --link--> agent --fork--> ranks. The link carries one message per rank to start,
and `{"signal": n, "ranks": [0, 2]}`; back come `{"rank", "pid"}` and
`{"rank", "code", "at"}`. When the kernel's side of the link is closed, for whatever
reason, all are killed.
"""

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
import traceback

from course_lib.launching import rank_process, rendezvous
from course_lib.system import linux, processes, sockets

_stores = []  # the store: to close it in order takes longer than to start a rank


def main(link: socket.socket, job: dict, *, files: list[int], owner: int) -> None:
    """Run one launch in this freshly forked process, which ends here."""
    ranks, born = {}, time.time()
    try:
        os.setsid()
        linux.adopt_orphans()
        # until a rank can tell where it is, the question must not end it
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        linux.meet_without_files()  # so will the ranks
        sys.breakpointhook = sys.__breakpointhook__  # a kernel's is its debugger's
        _run(link, job, files=files, owner=owner, ranks=ranks)
    except BaseException:
        sockets.send(link, {"broken": traceback.format_exc()[-8000:]})
    finally:
        try:
            family = linux.kill_children()
            if len(family) > len(ranks):  # a rank alone shares nothing
                processes.remove_leftovers(family, born)
        finally:
            link.close()
            os._exit(0)


def _run(link, job, *, files, owner, ranks):
    listener, setup, body = files
    while len(ranks) < job["world_size"]:
        message, channel = sockets.receive(link)
        if message is None:
            return
        if "signal" in message:
            _signal(ranks, message)
            continue
        rank, pid = message["rank"], os.fork()
        if pid == 0:
            try:
                ends = [end for _, end in ranks.values()]  # of the ranks before it
                for file in (link.detach(), owner, listener, *ends):
                    os.close(file)
                rank_process.main(
                    rank_process.Place(rank, **job), (setup, body, *channel)
                )
            finally:
                os._exit(1)  # never to become a second agent
        for file in channel:
            os.close(file)
        ranks[rank] = pid, os.pidfd_open(pid)
        sockets.send(link, {"rank": rank, "pid": pid})
    _stores.append(rendezvous.serve_store(job["port"], listener))
    _watch(link, owner, ranks)


def _watch(link, owner, ranks):
    """Report ends and pass on signals until the kernel is gone or closes the link."""
    with selectors.DefaultSelector() as events:
        events.register(link, selectors.EVENT_READ, "link")
        events.register(owner, selectors.EVENT_READ, "owner")
        for rank, (pid, ended) in ranks.items():
            events.register(ended, selectors.EVENT_READ, (rank, pid))
        while True:
            for key, _ in events.select():
                if key.data == "owner":
                    return
                if key.data == "link":
                    message, _ = sockets.receive(link)
                    if message is None:
                        return
                    _signal(ranks, message)
                else:
                    events.unregister(key.fileobj)
                    _report(link, *key.data)


def _report(link, rank, pid):
    # the process stays a zombie until the end, so that its number is not used again
    end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
    sockets.send(link, {"rank": rank, "code": code, "at": time.monotonic()})


def _signal(ranks, message):
    for rank in set(message["ranks"]) & ranks.keys():
        with contextlib.suppress(ProcessLookupError):
            os.kill(ranks[rank][0], signal.Signals(message["signal"]))
