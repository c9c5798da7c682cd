"""The grader's fork server: it has imported what kernels need, and forks supervisors.

    grader --control--> template --fork--> supervisor --fork--> nbval, kernel

It never runs a learner's code itself, so nothing of one notebook reaches another.
"""

import contextlib
import importlib
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from course_lib.exercises import folders
from course_lib.launching import client, forkserver

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
VARIABLES = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # the import would warn in our log
}
_LONGEST = 40  # characters of a folder: the name of a socket has at most 107


class Template(client.ForkServer):
    """The grader's handle of it; `folder` is gone when either has ended."""

    def __init__(self):
        usual = tempfile.gettempdir()
        where = usual if len(usual) <= _LONGEST else "/tmp"
        self.folder = Path(tempfile.mkdtemp(prefix="grading-", dir=where))
        super().__init__(__name__, str(self.folder), **VARIABLES)

    def supervise(self, folder: Path) -> socket.socket:
        """Have a notebook run as a job in this folder says; the link to it comes back.

        Errors: `OSError` if the template has ended.
        """
        module = "course_lib.grading.run.supervisor"
        return self.start(module, {"folder": str(folder)})

    def close(self) -> None:
        """End it; supervisors end when their links are closed."""
        super().close()
        remove(self.folder)


def remove(folder: Path) -> None:
    """Remove a folder, whatever a notebook made in it."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # folders without rights, or too many within each other
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*command, str(folder)], stderr=subprocess.DEVNULL)


def main(control: str, owner: str, folder: str) -> None:
    """Serve the grader until it ends."""
    _import_needed()
    forkserver.main(control, owner, *folders.observing())
    remove(Path(folder))  # the grader may have been killed


def _import_needed():
    forkserver.before_imports()
    # half of nbformat's import, and nothing in a notebook needs it
    modules: dict = sys.modules
    modules.setdefault("rfc3987_syntax", None)
    for name in NEEDED:
        importlib.import_module(name)
    # the schema is compiled by the first notebook that is read
    from nbformat import v4, validate

    validate(v4.new_notebook())
