"""Submissions in a folder of their own, graded by nbgrader or by `course_lib grade`."""

import copy
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import nbgrader
from tests import grading as small


@dataclass(frozen=True)
class Case:
    """An exercise, its solution, and how many submissions are few and many."""

    title: str
    exercise: dict
    solution: dict
    few: int
    many: int


def _ranks(answer):
    """A notebook whose check launches two ranks with one all-reduce."""
    imports = "import torch\nimport torch.distributed as dist\nimport course_lib as cl"
    check = "assert list(cl.launch(average, world_size=2)) == [0.5, 0.5]"
    tests = {"grade": True, "locked": True, "points": 10}
    cells = [
        small.cell("setup", imports),
        small.cell("average", answer, solution=True),
        small.cell("average-test", check, **tests),
    ]
    return {**small.notebook({}), "cells": cells}


_AVERAGE = """\
def average(rank, world_size):
    dist.init_process_group("gloo")
    number = torch.tensor([float(rank)])
    dist.all_reduce(number)
    return number.item() / world_size"""
_STUB = "def average(rank, world_size):\n    raise NotImplementedError"
CASES = {
    "plain": Case(
        "three plain checks",
        exercise=small.notebook({}),
        solution=small.notebook(small.ANSWERS),
        few=2,
        many=22,
    ),
    "ranks": Case(
        "two ranks, one all-reduce",
        exercise=_ranks(_STUB),
        solution=_ranks(_AVERAGE),
        few=2,
        many=12,
    ),
}
WAYS = {  # title, options of our command
    "nbgrader": ("`nbgrader autograde`", ()),
    "one": ("`course_lib grade -j 1`", ("-j1", "--sandbox")),
    "two": ("**`course_lib grade -j 2`**", ("-j2", "--sandbox")),
    "open": ("`course_lib grade -j 2 --no-sandbox`", ("-j2", "--no-sandbox")),
}


class Wrong(RuntimeError):
    """Submissions that are right did not get all points."""


class Classroom:
    """One exercise in a folder, with everything that a grader needs beside it."""

    def __init__(self, folder: Path, case: Case):
        self.folder, self.case = folder, case
        self.turns = itertools.count()
        _write(folder / "exercises/task.ipynb", case.exercise)
        self.course = None

    def release(self) -> None:
        """Tell nbgrader of the exercise: that is not measured."""
        self.course = nbgrader.Course(self.folder / "course", "task")
        self.course.release(self.case.solution)

    def grade(self, way: str, count: int) -> float:
        """Seconds in which `count` submissions are graded.

        Errors: `Wrong` unless all get all points.
        """
        folder = self.folder / str(next(self.turns))
        if way == "nbgrader":
            return self._by_nbgrader(folder, count)
        command = self.command(folder, count, WAYS[way][1])
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        if done.returncode:
            what = f"{' '.join(command)} ended with exit code {done.returncode}"
            raise Wrong(f"{what}: {done.stderr[-4000:]}")
        self.refuse(self.points(folder), count)
        return seconds

    def command(self, folder: Path, count: int, options: Iterable[str]) -> list[str]:
        """The command that grades `count` new submissions, which lie in `folder`."""
        for learner in _learners(count):
            _write(folder / "handed" / f"{learner}.ipynb", self._handed_in(learner))
        places = {
            "--exercises": self.folder / "exercises",
            "--state": folder / "state",
            "--json": folder / "grades.json",
        }
        command = [sys.executable, "-m", "course_lib", "grade", folder / "handed"]
        return list(map(str, [*command, *itertools.chain(*places.items()), *options]))

    def _handed_in(self, learner):
        """The solution in a file that is no other's: nobody can grade it only once."""
        made = copy.deepcopy(self.case.solution)
        made["cells"][1]["source"] += f"\n# by {learner}"
        return made

    def points(self, folder: Path) -> dict[str, float]:
        """The points of each learner that the command for `folder` has written."""
        found = json.loads((folder / "grades.json").read_text())["submissions"]
        return {one["learner"]: one["points"] for one in found}

    def _by_nbgrader(self, folder, count):
        course = self.course.copy(folder)
        for learner in _learners(count):
            course.submit(learner, self._handed_in(learner))
        began = time.perf_counter()
        course.grade()
        seconds = time.perf_counter() - began
        found = course.points()
        self.refuse({one: sum(cells.values()) for one, cells in found.items()}, count)
        return seconds

    def refuse(self, found: Mapping[str, float], count: int) -> None:
        """Errors: `Wrong` unless all `count` learners have all points."""
        expected = dict.fromkeys(_learners(count), 10)
        if found != expected:
            raise Wrong(f"{self.case.title}: points are {found}, expected {expected}")


def _learners(count):
    return [f"learner-{number:03}" for number in range(count)]


def _write(path, notebook):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook))
