"""Jupyter Book as a process: what it does as one line, what went wrong as sentences."""

import os
import re
import subprocess
from pathlib import Path

from course_lib.display import progress_line
from docs.book.errors import BookError

_STEP = re.compile(r"(reading sources|writing output)\.\.\. \[ *(\d+)%\] (\S*)")
_ANSI = re.compile(r"\x1b\[[\d;]*m")
_FAULT = re.compile(r"WARNING|ERROR|[Ee]rror:|not recognized")


def build(tool: Path, source: Path, output: Path) -> Path:
    """Have Jupyter Book make the pages of `source`; their folder comes back.

    Errors: `BookError` with what it said, also for a warning.
    """
    command = [tool, "build", source, "--path-output", output, "--all"]
    # a warning is a lost link or a page that nobody reaches
    command += ["--warningiserror", "--nitpick", "--keep-going"]
    # the same pages from the same sources
    same = {"SOURCE_DATE_EPOCH": "0", "PYTHONHASHSEED": "0"}
    process = subprocess.Popen(
        command,
        env=os.environ | same,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    lines = _followed(process)
    (output / "build.log").write_text("".join(lines), encoding="utf-8")
    if process.wait():
        faults = "".join(filter(_FAULT.search, lines)) or "".join(lines[-10:])
        raise BookError(f"Jupyter Book stopped:\n{faults}All: {output}/build.log")
    return output / "_build" / "html"


def _followed(process):
    """The lines that a process prints, without colours; the last step is shown."""
    lines = []
    with process, progress_line("Jupyter Book starts") as show:
        for line in process.stdout:
            lines.append(plain := _ANSI.sub("", line))
            # it ends a step with a return, to write over it
            for step, share, page in _STEP.findall(plain):
                show(f"{step}: {page}", int(share) / 100)
    return lines
