"""A notebook's kernel, forked from the grader's template: no imports, no waiting."""

import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

from course_lib.exercises import checking, folders
from course_lib.launching import client, forkserver, surroundings
from course_lib.tracebacks import show_errors

READY = b"ready"
_KNOWN = {"PATH", "LANG", "LANGUAGE", "TZ", "VIRTUAL_ENV", "MPLBACKEND", "RES_OPTIONS"}
_KINDS = (
    "LC_",
    "PYTHON",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "TORCH_",
    "PYTORCH_",
    "LD_",
    "CUDA",
    "NVIDIA",
    "NCCL_",
    "GLOO_",
    "COURSE_LIB_",
)


def main(room: Path, *, ready: int) -> None:
    """Be a kernel that serves `room/sockets/kernel.json`; this process ends here.

    When it can be asked, it writes that it is ready to the pipe `ready`.
    """
    app = _prepared(room)
    os.write(ready, READY)
    os.close(ready)
    app.start()
    os._exit(0)


def _prepared(room):
    os.setsid()
    _stand_alone(room)
    client.use_server(KernelServer())
    from ipykernel.kernelapp import IPKernelApp

    app = IPKernelApp.instance()
    # a file of what was run, which nobody reads, would cost 50 ms
    quiet = ["--HistoryManager.enabled=False", "--Application.log_level=50"]
    app.initialize([*quiet, "-f", str(room / "sockets/kernel.json")])
    show_errors(checking.Unsolved, _send_parts)
    return app


def _send_parts(shell, kind, error, trace, tb_offset=None):
    """Send what a check says as its parts, in place of lines for a notebook."""
    error._render_traceback_ = lambda: [error.found, error.hint]
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


def _stand_alone(room):
    """Folders, output and random numbers of this kernel's own."""
    home, here = room / "home", room / "exercises"
    for folder in (home, here):
        folder.mkdir(exist_ok=True)
    _forget_secrets()
    os.environ.update(
        HOME=str(home),
        USER="learner",  # a sandboxed one has no name
        TMPDIR="/tmp",
        COURSE_LIB_PROGRESS=str(home / "progress.jsonl"),
    )
    tempfile.tempdir = None  # the template has looked up another
    os.chdir(here)
    sys.path[0] = str(here)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    surroundings.scatter_seeds()
    gc.enable()


def _forget_secrets():
    """Drop variables that a notebook needs not know, such as keys of whoever grades."""
    for name in set(os.environ) - _KNOWN:
        if not name.startswith(_KINDS):
            del os.environ[name]


class KernelServer(client.ForkServer):
    """A fork server that is there at once: a fork of this kernel, as it begins."""

    def __init__(self):
        super().__init__(forkserver.__name__, *folders.observing())

    def _start(self, theirs):
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                for stream in (1, 2):
                    os.dup2(self.log.fileno(), stream)
                self.control.close()
                forkserver.serve_jobs(theirs, self.owner, preload=self.arguments)
            finally:
                os._exit(1)
        return Child(pid)


class Child:
    """As much of `subprocess.Popen` as the handle of a fork server needs."""

    def __init__(self, pid):
        self.pid, self.code = pid, None

    def poll(self):
        """Return the exit code, None while it runs."""
        return self._wait(os.WNOHANG)

    def kill(self):
        """End it by SIGKILL."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self):
        """Return the exit code, at its end."""
        return self._wait(0)

    def _wait(self, how):
        if self.code is None:
            pid, status = os.waitpid(self.pid, how)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code
