"""How long each lesson is, to read and to run: "Run all" in a new kernel."""

import re
import statistics
import sys
from datetime import datetime
from typing import NamedTuple

from benchmarks import report

ROUNDS = 3
LESSONS = report.ROOT / "notebooks"
SLOW = 2  # seconds: a cell says how long it takes, and is named here
# aim for 50, 120, 7; full above these, with no room to mend; too long above those
FULL = {"cells": 60, "lines": 150, "guesses": 8, "minutes": 60}
MOST = {"cells": 66, "lines": 165, "guesses": 9, "minutes": 85}
MOST |= {"words": 2000, "longest": 90}
SECONDS = 20  # to run all of it on a quick, quiet machine
_LINKS = "map", "next"
_INTRODUCTION = """# How long the lessons are

Cells; lines of code without blank lines and comments; words, in all and in the longest
text cell, without links to other lessons; guesses; minutes as the lesson's first lines
say. "Run all": seconds from the first cell to the last in a new kernel, median of {}
round{} (smallest to largest).
Limits: {cells} cells, {lines} lines, {words:,} words, {longest} in a text cell,
{guesses} guesses, {minutes} minutes; on a quick machine {seconds} seconds.
"""
_HEAD = ["lesson", "cells", "lines", "words", "longest text", "guesses", "minutes"]
_HEAD += ["run all (s)", f"cells above {SLOW} s"]


class Length(NamedTuple):
    """What there is to read in a lesson."""

    cells: int
    lines: int
    words: int
    longest: int
    guesses: int


def length(cells: list[dict]) -> Length:
    """Count the cells of a notebook; links that a command writes are no reading."""
    sources = {"code": [], "markdown": []}
    for cell in cells:
        if cell["id"] not in _LINKS:
            sources[cell["cell_type"]].append("".join(cell["source"]))
    texts = (re.sub(r"```.*?```", "", text, flags=re.S) for text in sources["markdown"])
    words = [len(re.findall(r"\w+", text)) for text in texts]
    lines = [line.strip() for text in sources["code"] for line in text.splitlines()]
    return Length(
        cells=len(cells),
        lines=sum(bool(line) and line[0] not in "#%" for line in lines),
        words=sum(words),
        longest=max(words, default=0),
        guesses=sum("cl.guess(" in text for text in sources["code"]),
    )


def least_guesses(notebook: dict) -> int:
    """The guesses that a lesson must have: six, a short one one in five minutes."""
    return min(6, notebook["metadata"]["course"]["minutes"] // 5)


def seconds(cells: list[dict]) -> dict[str, float]:
    """The seconds of each code cell that ran, by its id, as nbclient noted them."""
    times = {}
    for cell in cells:
        noted = cell["metadata"].get("execution", {})
        if "iopub.execute_input" in noted:
            begin, end = noted["iopub.execute_input"], noted["shell.execute_reply"]
            times[cell["id"]] = (_time(end) - _time(begin)).total_seconds()
    return times


def _time(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python 3.10 knows no Z


def run(rounds: int | None = None) -> str:
    """Run all lessons in every round; the table comes back."""
    from course_lib.authoring import execute

    rounds = rounds or ROUNDS
    paths = sorted(LESSONS.glob("*.ipynb"))
    measured = {path: [] for path in paths}
    for number in range(rounds):
        for path in paths:
            print(f"\rround {number + 1}: {path.name:40}", end="", file=sys.stderr)
            notebook = execute.execute(path)
            measured[path].append(seconds(notebook.cells))
    print(file=sys.stderr)
    rows = [_row(path, times) for path, times in measured.items()]
    texts = [
        _INTRODUCTION.format(rounds, "s" * (rounds > 1), seconds=SECONDS, **MOST),
        report.table(_HEAD, rows),
    ]
    return "\n".join([*texts, report.conditions()])


def _row(path, rounds):
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    name, minutes = path.stem.partition("_")[0], notebook.metadata["course"]["minutes"]
    sizes = length(notebook.cells)
    totals = sorted(sum(times.values()) for times in rounds)
    whole = f"{statistics.median(totals):.1f} ({totals[0]:.1f} to {totals[-1]:.1f})"
    by_cell = {id: statistics.median(t[id] for t in rounds) for id in rounds[0]}
    slow = [f"{id} {time:.1f}" for id, time in by_cell.items() if time > SLOW]
    return [name, *map("{:,}".format, (*sizes, minutes)), whole, ", ".join(slow) or "–"]
