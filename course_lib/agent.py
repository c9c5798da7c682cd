"""The agent of a launch starts ranks, serves their store, reports ends, cleans up.

Kernel --link--> agent --fork--> ranks. The link carries one message per rank to start,
then `{"signal": n}`; back come `{"rank", "pid"}` and `{"rank", "code", "at"}`. When the
kernel's side of the link is closed, for whatever reason, every process is killed.
"""

import os
import selectors
import signal
import socket
import time
import traceback

from course_lib import linux, rendezvous, wire, worker


def main(link: socket.socket, owner: int, job: dict, *, files: list[int]) -> None:
    """Run one launch in this freshly forked process, which ends here."""
    ranks = {}
    try:
        os.setsid()
        linux.die_with_parent()
        linux.adopt_orphans()
        _run(link, owner, job, files=files, ranks=ranks)
    except BaseException:
        wire.send(link, {"broken": traceback.format_exc()[-8000:]})
    finally:
        linux.kill_children([pid for _, pid, _ in ranks.values()])
        link.close()
        os._exit(0)


def _run(link, owner, job, *, files, ranks):
    listener, setup, body = files
    for rank in range(job["world_size"]):
        _, channel = wire.receive(link)
        if not channel:
            return
        pid = os.fork()
        if pid == 0:
            for file in (
                link.detach(),
                owner,
                listener,
                *(fd for _, _, fd in ranks.values()),
            ):
                os.close(file)
            worker.main(worker.Place(rank, **job), (setup, body, *channel))
        for file in channel:
            os.close(file)
        ranks[rank] = (rank, pid, os.pidfd_open(pid))
        wire.send(link, {"rank": rank, "pid": pid})
    job["store"] = rendezvous.serve_store(
        job["port"], listener
    )  # kept until this process ends
    _watch(link, owner, ranks)


def _watch(link, owner, ranks):
    """Report ends and pass on signals until the kernel is gone or closes the link."""
    with selectors.DefaultSelector() as events:
        events.register(link, selectors.EVENT_READ, "link")
        events.register(owner, selectors.EVENT_READ, "owner")
        for rank, pid, ended in ranks.values():
            events.register(ended, selectors.EVENT_READ, (rank, pid))
        while True:
            for key, _ in events.select():
                if key.data == "owner":
                    return
                if key.data == "link":
                    message, _ = wire.receive(link)
                    if message is None:
                        return
                    _signal(ranks, message["signal"])
                else:
                    events.unregister(key.fileobj)
                    _report(link, *key.data)


def _report(link, rank, pid):
    # the process stays a zombie until the end, so that its number is not used again
    end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
    wire.send(link, {"rank": rank, "code": code, "at": time.monotonic()})


def _signal(ranks, number):
    for _, pid, _ in ranks.values():
        try:
            os.kill(pid, signal.Signals(number))
        except ProcessLookupError:
            pass
