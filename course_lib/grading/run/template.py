"""The warm template: imports what kernels need once, and forks a proctor per notebook.

    grader --control--> template --fork--> proctor --fork--> nbval, kernel

It never runs a learner's code itself, so nothing of one notebook reaches another.
"""

import contextlib
import importlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from course_lib.exercises import stages
from course_lib.launching import forkserver, server
from course_lib.system import linux, sockets

NEEDED = (
    "matplotlib_inline.backend_inline",
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    # a kernel and pytest import these as they start, which took a third of a grade
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.logger",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "numpy.random",
    "tornado.platform.asyncio",
    "_pytest.helpconfig",
    "_pytest.skipping",
    "course_lib.exercises.checking",
    "course_lib.plots.timeline",
    "course_lib.grading.run.supervisor",
)
ENVIRONMENT = {
    **server.ENVIRONMENT,
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # the import would warn in our log
}
_LONGEST = 40  # characters of a folder: the name of a socket has at most 107
_START = (
    f"import sys; sys.path[0] = {str(Path(__file__).parents[3])!r}; "
    "from course_lib.grading.run.template import main;"
    " main(int(sys.argv[1]), sys.argv[2])"
)


class Template:
    """The grader's handle of its template; `folder` is gone when either has ended."""

    def __init__(self):
        usual = tempfile.gettempdir()
        where = usual if len(usual) <= _LONGEST else "/tmp"
        self.folder = Path(tempfile.mkdtemp(prefix="grading-", dir=where))
        self.log = open(os.memfd_create("course_lib template"), "rb", buffering=0)
        self.control, theirs = sockets.pair()
        with theirs:
            self.process = self._start(theirs)

    def _start(self, theirs):
        """The process that serves the other end of `control`."""
        return subprocess.Popen(
            [sys.executable, "-c", _START, str(theirs.fileno()), str(self.folder)],
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C is for the grader, which ends it
            env={**server.QUIET, **os.environ, **ENVIRONMENT},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )

    def lives(self) -> bool:
        """True while it can fork."""
        return self.process.poll() is None

    def start(self, job: dict) -> socket.socket:
        """Have a proctor forked for `job`; the link to it comes back."""
        link, theirs = sockets.pair()
        with theirs:
            sockets.send(self.control, job, [theirs.fileno()])
        return link

    def last_words(self) -> str:
        """What it wrote before it ended."""
        return os.pread(self.log.fileno(), 1 << 16, 0).decode(errors="replace").strip()

    def close(self) -> None:
        """End it; proctors end when their links are closed."""
        self.control.close()
        self.process.kill()
        self.process.wait()
        self.log.close()
        remove(self.folder)


def remove(folder: Path) -> None:
    """Remove a folder, whatever a notebook made in it."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # folders without rights, or too many within each other
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*command, str(folder)], stderr=subprocess.DEVNULL)


def main(control: int, folder: str) -> None:
    """Fork a proctor for each job until the grader's side is closed."""
    control = socket.socket(fileno=control)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    linux.adopt_orphans()  # of a proctor that is killed
    later = _prepare()
    from course_lib.grading.run import supervisor

    proctors = {}
    while True:
        patience = 0 if later else None
        busy, _, _ = select.select([control, *proctors], [], [], patience)
        for ended in proctors.keys() & set(busy):
            _bury(proctors, ended)
        if control not in busy:
            if later and not busy:
                _import(later)
            continue
        job, files = sockets.receive(control)
        if job is None:
            break
        pid = os.fork()
        if pid == 0:
            control.close()
            for file in proctors:
                os.close(file)
            supervisor.main(socket.socket(fileno=files[0]), Path(job["folder"]))
        os.close(files[0])
        proctors[os.pidfd_open(pid)] = pid
    for ended in list(proctors):
        _bury(proctors, ended)
    remove(Path(folder))  # the grader may have been killed


def _bury(proctors, ended):
    _, status = os.waitpid(proctors.pop(ended), 0)
    os.close(ended)
    if status:
        linux.kill_orphans(proctors.values())


def _prepare():
    """Import what every kernel needs; what many need comes back, for a quiet moment."""
    forkserver.before_imports()
    # half of nbformat's import, and nothing in a notebook needs it
    sys.modules.setdefault("rfc3987_syntax", None)
    for name in NEEDED:
        importlib.import_module(name)
    # the schema is compiled by the first notebook that is read
    from nbformat import v4, validate

    validate(v4.new_notebook())
    forkserver.warm_up()
    return forkserver.ahead(stages.names())


def _import(later):
    forkserver.import_quietly(later.pop(0))
    if not later:
        forkserver.complete()
