"""A command and the memory of all its processes while it runs."""

import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from course_lib.system import processes as proc

PAUSE = 1.0  # seconds between two looks: each of them costs some 50 ms


@dataclass(frozen=True)
class Look:
    """Bytes of memory and number of processes at one moment."""

    bytes: int
    processes: int


@dataclass(frozen=True)
class Watched:
    """How long a command took, its exit status, what was seen of it on the way."""

    seconds: float
    status: int
    looks: list[Look]


def watch(command: list[str], *, log: Path) -> Watched:
    """Run a command to its end; what it prints goes into the file `log`."""
    looks, began = [], time.perf_counter()
    with open(log, "wb") as file:
        streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
        process = subprocess.Popen(command, **streams)
    with process:
        while True:
            try:
                status = process.wait(PAUSE)
                return Watched(time.perf_counter() - began, status, looks)
            except subprocess.TimeoutExpired:
                looks.append(look(process.pid))


def look(root: int) -> Look:
    """What a process and all its descendants use now.

    Pages that several processes share are divided among them: their sum counts each
    page once.
    """
    family = {root, *proc.descendants(root)}
    return Look(sum(map(proc.proportional, family)), len(family))


def middle(looks: list[Look], first: float, last: float) -> Look:
    """The medians of the looks between two parts of the time, from 0 to 1."""
    begin, end = int(first * len(looks)), int(last * len(looks))
    some = looks[begin : max(end, begin + 1)] or [Look(0, 0)]
    return Look(
        round(statistics.median(one.bytes for one in some)),
        round(statistics.median(one.processes for one in some)),
    )
