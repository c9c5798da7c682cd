"""What all reports share: Markdown tables, and under which conditions was measured."""

import hashlib
import os
import platform
import statistics
import sys
from collections.abc import Iterable
from datetime import date
from importlib.metadata import version
from pathlib import Path

from course_lib.authoring.code import plain

ROOT = Path(__file__).parents[1]


class Report(str):
    """A report in Markdown; `files` are texts to be saved with it, by path."""

    files: dict = {}


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; a cell that holds ` | ` fills two columns."""
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    columns = lines[0].count(" | ") + 1
    return "\n".join([lines[0], "|---" * columns + "|", *lines[1:], ""])


def digest(patterns: Iterable[str]) -> str:
    """A hash of the modules of the project that match: their names and their code."""
    names = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
    made = hashlib.sha256()
    for path in names:
        code = plain(path.read_text(encoding="utf-8"))
        made.update(f"{path.relative_to(ROOT)}\0{code}\0".encode())
    return made.hexdigest()[:16]


def spread(values: list[float], form: str) -> str:
    """Return the median of some values, and in brackets the smallest and largest."""
    ends = statistics.median(values), min(values), max(values)
    return "{} ({} to {})".format(*(format(value, form) for value in ends))


def say(text: str) -> None:
    """Tell in a terminal how far a benchmark is."""
    print(text, file=sys.stderr, flush=True)


def conditions() -> str:
    """Date, versions and processor in one line."""
    return (
        f"{date.today()}, Python {platform.python_version()}, torch {version('torch')},"
        f" {processor()}, {os.cpu_count()} cores.\n"
    )


def processor() -> str:
    """The processor's model name."""
    try:
        with open("/proc/cpuinfo") as file:
            line = next(line for line in file if "model name" in line)
        return line.split(":")[1].strip()
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
