"""What a machine lacks for some tests: a line for each thing, with what installs it."""

import importlib.util
import shutil
from collections import Counter, defaultdict

import pytest

from course_lib import checkup
from course_lib.grading.run import sandbox
from tests import browser

# by the names that the doctor has for them
PROGRAMS = {
    "Chromium": browser.NAMES,
    "bwrap": ["bwrap"],  # notebooks are graded in its sandbox
    "OpenMPI": ["mpirun.openmpi"],
    "MPICH": ["mpirun.mpich"],
    "shellcheck": ["shellcheck"],
}
LIBRARIES = ("accelerate", "lightning")


def here(name: str) -> bool:
    """True if a program or library is on this machine."""
    if name in LIBRARIES:
        return importlib.util.find_spec(name) is not None
    return any(map(shutil.which, PROGRAMS[name]))


def needs(name: str):
    """A mark that skips tests where a program or library is not here."""
    return pytest.mark.skipif(not here(name), reason=f"needs {name}")


def needs_sandbox():
    """A mark that skips tests where the grader has no sandbox."""
    if not here("bwrap"):
        return needs("bwrap")
    reason = sandbox.missing()
    return pytest.mark.skipif(bool(reason), reason=reason)


def lines(skipped):
    """What is told of the tests that were skipped, from the reports of pytest."""
    files = defaultdict(Counter)
    for report in skipped:
        reason = report.longrepr[-1].removeprefix("Skipped: ")
        files[reason][report.nodeid.partition("::")[0]] += 1
    for name in (*PROGRAMS, *LIBRARIES):
        if counts := files.pop(f"needs {name}", None):
            more = f"{counts.total()} more test{'s' * (counts.total() > 1)}"
            yield f"{name} is not here; {more} after: {_install(name)}"
    for reason, counts in sorted(files.items()):
        yield f"skipped: {counts.total()} × {reason} ({', '.join(sorted(counts))})"


def _install(name):
    if name in LIBRARIES:
        return f".venv/bin/python -m pip install {name}"
    return checkup.install_command(name)
