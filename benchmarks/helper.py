"""A process of its own for each way of launching, so that none disturbs another."""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress

from course_lib.system import linux

# the same for all ways; what a way needs beside this, it sets itself
ENVIRONMENT = {
    "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RES_OPTIONS": "timeout:1 attempts:1",  # c10d asks a name server about 127.0.0.1
}
_LONGEST = 60  # seconds for one launch


class LaunchFailed(RuntimeError):
    """A launch that hung or ended in an error."""


class Helper:
    """A process that launches ranks in one way, again and again, and takes the time."""

    def __init__(self, way: str, *, most: int, folder: str):
        self.way, self.failures = way, 0
        self.log = os.path.join(folder, f"{way}.log")
        self.options = {"most": most, "folder": folder, "log": self.log}
        self._start()

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self.link, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(self.way, theirs), kwargs=self.options
        )
        self.process.start()
        theirs.close()

    def ask(self, world_size: int) -> None:
        """Begin a launch; `answer` waits for it."""
        self.link.send(world_size)

    def answer(self) -> tuple[float, list[float]]:
        """Seconds of the launch that was asked for, and what its ranks returned.

        Errors: `LaunchFailed` with the reason, or after a minute.
        """
        seconds, values = self._receive()
        if seconds is None:
            what = f"launching by {self.way} failed: {values}"
            raise LaunchFailed(f"{what}\n{self._last_words()}".rstrip())
        return seconds, values

    def _receive(self):
        if not self.link.poll(_LONGEST):
            return None, f"not done after {_LONGEST} s"
        try:
            return self.link.recv()
        except EOFError:
            return None, "its process ended"

    def _last_words(self):
        with open(self.log, errors="replace") as file:
            return file.read()[-4000:]

    def renew(self) -> None:
        """Start again after a launch that failed, which is counted."""
        self.failures += 1
        self.close()
        self._start()
        self.ask(2)
        self.answer()

    def stop(self) -> None:
        """Tell the process to end, with all that it started."""
        if not self.link.closed:
            self.link.close()
            self.process.terminate()

    def close(self) -> None:
        """Stop the process and wait until it has ended."""
        self.stop()
        self.process.join()


def _serve(way, link, *, most, folder, log):
    """Time a launch for every world size that comes, until the link ends."""
    _stand_alone(folder, log)
    try:
        with suppress(EOFError, SystemExit):
            _answer_all(way, link, most)
    except Exception:
        with suppress(OSError):  # nobody listens when it was the parent who stopped it
            link.send((None, traceback.format_exc()))
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        linux.kill_children()


def _answer_all(way, link, most):
    from benchmarks import ways

    launch = ways.ready(way, most)
    while True:
        world_size = link.recv()
        started = time.perf_counter()
        values = launch(world_size)
        seconds = time.perf_counter() - started
        ways.tidy(way)
        link.send((seconds, values))


def _stand_alone(folder, log):
    linux.adopt_orphans()  # torchrun starts its ranks in sessions of their own
    os.setsid()  # an interrupt is meant for the parent, which then ends this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    # mp.spawn and torchrun leave files in the temporary folder
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    os.chdir(folder)
