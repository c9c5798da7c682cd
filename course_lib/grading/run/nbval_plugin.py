"""Run one notebook by nbval, in a kernel that runs already, and report each cell."""

import os
import re
import time
from pathlib import Path
from typing import Any

import nbval.plugin
import pytest

from course_lib.grading.run.nbval_kernel import Supervised, short
from course_lib.system import sockets

_PLACE = re.compile(r"\(\d+\.py, line (\d+)\)\Z")
# what a cell of a notebook never uses, each a few milliseconds of every grade
_NOT_USED = (
    "cacheprovider",
    "debugging",
    "doctest",
    "faulthandler",
    "junitxml",
    "logging",
    "monkeypatch",
    "pastebin",
    "recwarn",
    "setuponly",
    "setupplan",
    "stepwise",
    "subtests",
    "threadexception",
    "tmpdir",
    "unittest",
    "unraisableexception",
    "warnings",
)
_OPTIONS = (
    "--nbval-lax",
    "--nbval-current-env",
    "-q",
    f"-c{os.devnull}",
    "-pnbval.plugin",
    *(f"-pno:{name}" for name in _NOT_USED),
)


def main(link, job: dict, *, kernel: int) -> None:
    """Run `job["notebook"]` in the kernel with this process id; this process ends here.

    `link` gets `{"cell"}` when a cell begins and `{"cell", "outcome", ...}` at its end.
    """
    code = 1
    try:
        for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
            os.environ.pop(name, None)
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        reporter = CellReporter(link, job, kernel)
        nbval.plugin.RunningKernel = reporter.connect
        path = Path(job["notebook"])
        # else pytest lists all folders above, and runs what somebody left there
        places = [f"--rootdir={path.parent}", f"--confcutdir={path.parent}"]
        options = [*_OPTIONS, *places, str(path)]
        code = pytest.main(options, plugins=[reporter])
    finally:
        os._exit(code)


class CellReporter:
    """Tells of every cell that nbval runs; a plugin of pytest."""

    def __init__(self, link, job, kernel):
        self.link, self.job, self.pid = link, job, kernel
        self.kernel: Any = None  # a `Supervised`, once the cells begin
        self.began = 0.0
        self.last = None

    def connect(self, *_, **__):
        """Return the kernel that is there, in place of one that nbval would start."""
        self.kernel = Supervised(self.pid, self.job)
        return self.kernel

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        """Give the cell its time. It is not to blame for the one before it."""
        if self.last is not None and not self.kernel.is_alive():
            # what ended it was started by the cell before
            self._tell(self.last, outcome="ended")
            item.session.shouldstop = "the kernel has ended"
            pytest.skip("the kernel has ended")
        item.parent.timed_out = False
        self.last = item
        seconds = self.job["seconds"].get(item.cell.id, self.job["cell"])
        item.config.option.nbval_cell_timeout = seconds
        self.began = time.monotonic()
        self._tell(item)

    def pytest_runtest_makereport(self, item, call):
        """Report how the cell ended; after the end of its kernel no other is run."""
        if call.when == "setup" and call.excinfo and not item.session.shouldstop:
            sockets.send(self.link, {"broken": short(call.excinfo.value)})
            item.session.shouldstop = "nbval has no kernel"
        if call.when != "call":
            return
        ended = not self.kernel.is_alive()
        outcome, report = _outcome(item, call, ended), self._report(item, call)
        self._tell(item, outcome=outcome, **report)
        if ended:
            item.session.shouldstop = "the kernel has ended"

    def _report(self, item, call):
        """What the cell showed at its end, and how long it took."""
        outputs = item.test_outputs or ()
        errors = [output for output in outputs if output.output_type == "error"]
        results = [
            output for output in outputs if output.output_type == "execute_result"
        ]
        report = {"seconds": time.monotonic() - self.began, "cut": self.kernel.dropped}
        if errors:
            first = errors[0]
            text = _located(short(first.evalue), item.cell.source)
            report |= {"kind": short(first.ename)[:80], "text": text}
            if first.traceback:  # of a check
                report["text"], report["hint"] = first.traceback
        elif call.excinfo:
            report |= {"kind": "", "text": short(str(call.excinfo.value))}
        elif results:
            data = results[-1].data  # of a kernel that may send anything
            text = data.get("text/plain", "") if isinstance(data, dict) else ""
            report["text"] = short(text)
        return report

    def _tell(self, item, **what):
        sockets.send(self.link, {"cell": item.cell.id, **what})


def _outcome(item, call, ended):
    if item.parent.timed_out:
        return "late"
    if ended:
        return "ended"
    return "failed" if call.excinfo else "passed"


def _located(text, source):
    """An error of the syntax with the line of the cell, not of a file in memory."""
    place, lines = _PLACE.search(text), source.split("\n")
    if not place or not 0 < int(place[1]) <= len(lines):
        return text
    return f"{text[: place.start()]}in line {place[1]}: {lines[int(place[1]) - 1]}"
