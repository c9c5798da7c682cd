"""Ranks without a fork server, for systems other than Linux: new processes each.

Slower by the import of torch, two seconds or more, in every rank of every launch.
"""

import json
import os
import signal
import subprocess
import sys
import time

from course_lib.launching import client, rank_process, rendezvous
from course_lib.launching.protocol import Job, Place, RankEnded, RankStarted


class SpawnedHost:
    """Starts each rank as a process of its own and tells how it ended."""

    how = ", slower start: without the process server every rank imports torch"
    agents = ()  # of torchrun, which takes no part
    link = None  # nothing to wait on: the launcher looks every few milliseconds

    def __init__(self, job: Job, files: list[int]):
        listener, *self.inputs = files
        self.job, self.processes = job, {}
        self.begun, self.reported = [], set()
        self.store = rendezvous.serve_store(job.port, os.dup(listener))
        self.alive, self._pulse = os.pipe()

    def start_rank(self, rank: int, channel) -> None:
        """Start one rank; `channel` holds the files for output, result and stacks."""
        place = Place(rank, self.job)
        files = [*self.inputs, *channel, self.alive]
        arguments = [__name__, json.dumps(place), json.dumps(files)]
        self.processes[rank] = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            pass_fds=files,
            env={"OMP_NUM_THREADS": "1", **os.environ},  # read as numpy is imported
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=channel[0],
            stderr=channel[0],
        )
        self.begun.append(RankStarted(rank, self.processes[rank].pid))

    def news(self) -> list:
        """Return a message for each rank that started or ended since the last look."""
        news, self.begun = self.begun, []
        for rank in self.processes.keys() - self.reported:
            code = self.processes[rank].poll()
            if code is not None:
                self.reported.add(rank)
                news.append(RankEnded(rank, code, time.monotonic()))
        return news

    def signal(self, number: int, ranks: list[int]) -> None:
        """Send a signal to these ranks."""
        for rank in ranks:
            if rank in self.processes:
                self.processes[rank].send_signal(number)

    def close(self) -> None:
        """Kill what still runs and remove the files."""
        for process in self.processes.values():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
            process.wait()
        os.close(self.alive)
        os.close(self._pulse)


# until the rank can tell where it is, the question must not end it
_START = f"import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN); {client.START}"


def main(place: str, files: str) -> None:
    """Be one rank in this new process."""
    *numbers, alive = json.loads(files)
    _end_with_notebook(alive)
    rank, job, _ = json.loads(place)
    rank_process.main(Place(rank, Job(*job)), tuple(numbers))


def _end_with_notebook(alive):
    """Leave when the notebook's process is gone: its end of the pipe closes."""
    import threading

    def watch():
        os.read(alive, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
