"""Watch over one notebook: its kernel, nbval, its limits; in the end nothing is left.

The grader's link gets what `nbval_plugin` reports, and last `{"end": reason}`: `done`,
`limit` with what was exceeded, or `broken` with what the grader could not do.
"""

import contextlib
import json
import os
import select
import time
import traceback
from pathlib import Path
from typing import Any

from jupyter_client.connect import write_connection_file

from course_lib.grading.run import kernel, nbval_plugin
from course_lib.grading.run.limits import Limits, confine, excess, kill
from course_lib.grading.run.sandbox import (
    Sandbox,
    SandboxError,
    give_up_privileges,
    seal,
    stranger,
)
from course_lib.system import linux, processes, sockets

_TICK = 0.2  # seconds between two looks at memory and processes
_CHANNELS = ("shell", "iopub", "stdin", "hb", "control")
_STARTING = 60.0  # seconds that a kernel may take on a busy machine


class Unable(Exception):
    """Something that the grader needs could not be done."""


def main(link, arguments: dict, *, files: list[int], owner: int) -> None:
    """Run one notebook in this freshly forked process, which ends here."""
    forks = linux.Forks()
    try:
        os.close(owner)  # whose end closes the link, too
        folder = Path(arguments["folder"])
        job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
        end = _Run(link, job).result()
    except Unable as error:
        end = {"end": "broken", "why": str(error)}
    except BaseException:
        end = {"end": "broken", "why": traceback.format_exc()[-4000:]}
    finally:
        with contextlib.suppress(OSError):
            forks.end()
        with contextlib.suppress(OSError):
            sockets.send(link, end)
        os._exit(0)


class _Run:
    """The processes of one notebook while it runs."""

    def __init__(self, link, job):
        self.link, self.job = link, job
        self.limits = Limits(**job["limits"])
        self.room = Path(job["room"])
        self.log = os.memfd_create("nbval")

    def result(self):
        """Return how the run ended."""
        with contextlib.ExitStack() as stack:
            self.sandbox = None
            if self.job["sandbox"]:
                self.sandbox = stack.enter_context(self._make_sandbox())
            pid = self._start_kernel()
            return self._watch(self._start_nbval(pid))

    def _make_sandbox(self):
        try:
            return Sandbox(self.room, self.limits, hidden=self.job["hidden"])
        except (SandboxError, OSError) as error:
            raise Unable(f"no sandbox: {error}") from None

    def _start_kernel(self):
        """The process id of a kernel that is ready."""
        folder = self.room / "sockets"
        ports: dict[str, Any] = {
            f"{name}_port": n for n, name in enumerate(_CHANNELS, start=1)
        }
        # sockets with names in a folder, since the sandbox has a network of its own
        file, _ = write_connection_file(
            str(folder / "kernel.json"),
            transport="ipc",
            ip=str(folder / "kernel"),
            **ports,
        )
        self.user = stranger() if self.sandbox else None
        if self.user is not None:
            for path in (folder, file):
                os.chown(path, self.user, self.user)
        number_in, number_out = os.pipe()
        ready_in, ready_out = os.pipe()
        self.carrier = os.fork()
        if self.carrier == 0:
            _carry(self, number_out, ready_out)
        os.close(number_out)
        os.close(ready_out)
        with open(number_in, "rb") as pids, open(ready_in, "rb") as answers:
            pid = pids.read()
            answer = b"it did not answer"
            if select.select([answers], [], [], _STARTING)[0]:
                answer = answers.read() or b"it ended"
        if answer != kernel.READY or not pid:
            raise Unable(f"the kernel cannot start: {answer.decode(errors='replace')}")
        return int(pid)

    def _start_nbval(self, pid):
        nbval = os.fork()
        if nbval == 0:
            with contextlib.suppress(BaseException):
                for stream in (1, 2):
                    os.dup2(self.log, stream)
                job = {
                    "notebook": self.job["notebook"],
                    "connection": str(self.room / "sockets/kernel.json"),
                    "seconds": self.job["seconds"],
                    "cell": self.limits.cell,
                    "output": self.limits.output,
                }
                nbval_plugin.main(self.link, job, kernel=pid)
            os._exit(1)
        return nbval

    def _watch(self, nbval):
        """Wait for nbval; end all if a limit is exceeded or nobody waits any more."""
        ended = os.pidfd_open(nbval)
        until = time.monotonic() + self.limits.total
        while True:
            busy, _, _ = select.select([ended, self.link], [], [], _TICK)
            if self.link in busy:
                raise Unable("the grader was interrupted")
            if ended in busy:
                return self._end(nbval)
            files = self.sandbox.used() if self.sandbox else 0
            pids = self._members(nbval)
            too_much = excess(pids, self.limits, files=files, reader=nbval)
            if not too_much and time.monotonic() > until:
                too_much = f"{self.limits.total:g} seconds for the whole notebook"
            if too_much:
                self._kill_members(nbval)
                kill([nbval])  # before it reads what they still sent
                return {"end": "limit", "why": too_much}

    def _end(self, nbval):
        if self.sandbox and self.sandbox.ended():
            raise Unable("the sandbox was ended from outside")
        code = processes.exit_code(nbval)
        if code in (0, 1, 2):  # all passed, some failed, it stopped early
            return {"end": "done"}
        log = os.pread(self.log, 1 << 16, 0).decode(errors="replace")[-4000:]
        raise Unable(f"nbval ended with exit code {code}: {log}")

    def _members(self, nbval):
        ours = self.sandbox.processes if self.sandbox else set()
        pids = processes.descendants() - ours - {self.carrier, nbval}
        return {pid for pid in pids if processes.state(pid) not in (None, "Z")}

    def _kill_members(self, nbval):
        while pids := self._members(nbval):
            kill(pids)


def _carry(run, number, ready):
    """In a process between: join the sandbox, fork the kernel, wait for its end."""
    try:
        _let_go({number, ready})
        users = run.sandbox.enter() if run.sandbox else -1
        answer_in, answer_out = os.pipe()
        pid = os.fork()
        if pid == 0:
            _let_go({answer_out, users})
            _be_kernel(run, answer_out, users)
        os.write(number, b"%d" % pid)
        os.close(number)
        os.close(answer_out)
        text = os.read(answer_in, 8000)  # of one write; its own forks keep this open
        if run.sandbox:
            seal(run.room / "sockets")
        os.write(ready, text)
        os.close(ready)
        os.waitpid(pid, 0)
    except BaseException:
        os.write(ready, traceback.format_exc()[-4000:].encode())
    finally:
        os._exit(0)


def _be_kernel(run, ready, users):
    try:
        run.job = None  # it names what others handed in
        confine(run.limits, alone=bool(run.sandbox))
        if run.sandbox:
            give_up_privileges(run.user, users)
        kernel.main(run.room, ready=ready)
    except BaseException:
        os.write(ready, traceback.format_exc()[-4000:].encode())
    finally:
        os._exit(1)


def _let_go(but):
    """Keep no file of the grader's open.

    Objects hold their numbers and will close them: something else must not get these.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in {0, 1, 2, nothing, *but}:
            with contextlib.suppress(OSError):
                os.fstat(int(name))  # the folder that is listed is closed already
                os.dup2(nothing, int(name), inheritable=False)
