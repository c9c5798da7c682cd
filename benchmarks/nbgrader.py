"""nbgrader in a folder of its own: release, collect, grade, read the points."""

import copy
import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

VERSION = "0.9.6"  # as in nbgrader.txt
HOME = Path(sys.prefix) / "nbgrader"  # where make installs it, apart from .venv
_CONFIG = """\
c = get_config()
c.CourseDirectory.course_id = "course"
c.ClearSolutions.begin_solution_delimeter = "### BEGIN SOLUTION"
c.ClearSolutions.end_solution_delimeter = "### END SOLUTION"
c.ClearSolutions.code_stub = {{"python": "# your code\\nraise NotImplementedError"}}
c.ExecutePreprocessor.timeout = {timeout}
c.ExecutePreprocessor.interrupt_on_timeout = True
"""
_POINTS = """\
SELECT student.id, base_cell.name, grade.auto_score, grade.needs_manual_grade
FROM grade
JOIN base_cell ON base_cell.id = grade.cell_id
JOIN submitted_notebook ON submitted_notebook.id = grade.notebook_id
JOIN submitted_assignment
    ON submitted_assignment.id = submitted_notebook.assignment_id
JOIN student ON student.id = submitted_assignment.student_id
"""


class NbgraderFailed(RuntimeError):
    """nbgrader is not there, or ended with an error; its words are in the message."""


class Course:
    """A course of nbgrader's in an empty folder, with one assignment, `name`."""

    def __init__(self, folder: Path, name: str, *, timeout: int = 120):
        self.folder, self.name = folder, name
        folder.mkdir(parents=True)
        text = _CONFIG.format(timeout=timeout)
        (folder / "nbgrader_config.py").write_text(text)

    def copy(self, folder: Path) -> "Course":
        """The same course as it is now, in a new folder."""
        made = copy.copy(self)
        made.folder = Path(shutil.copytree(self.folder, folder))
        return made

    def release(self, notebook: dict) -> dict:
        """What `generate_assignment` makes of a solution, which is the source."""
        self._write("source", self.name, notebook=notebook)
        self._run("generate_assignment", self.name, "--create")
        return json.loads(self._path("release", self.name).read_text())

    def submit(self, learner: str, notebook: dict) -> None:
        """Put a notebook where nbgrader expects what a learner handed in."""
        self._write("submitted", learner, self.name, notebook=notebook)

    def grade(self) -> str:
        """Run `autograde`; what it said comes back."""
        return self._run("autograde", self.name)

    def points(self) -> dict[str, dict[str, float]]:
        """The points of each check, by learner and by the id of the check's cell.

        Errors: `NbgraderFailed` for a cell that waits for a person's points.
        """
        found = {}
        with closing(sqlite3.connect(self.folder / "gradebook.db")) as database:
            rows = database.execute(_POINTS).fetchall()
        for learner, cell, points, by_hand in rows:
            if by_hand or points is None:
                raise NbgraderFailed(f"nbgrader gave no points to {cell} of {learner}")
            found.setdefault(learner, {})[cell] = points
        return found

    def _path(self, *parts):
        return self.folder.joinpath(*parts, f"{self.name}.ipynb")

    def _write(self, *parts, notebook):
        path = self._path(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(notebook))

    def _run(self, *arguments):
        """Errors: `NbgraderFailed` with the last that nbgrader said."""
        refuse_missing()
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *arguments],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise NbgraderFailed(
                f"nbgrader {' '.join(arguments)} ended with exit code"
                f" {done.returncode}:\n{done.stdout[-4000:]}"
            )
        return done.stdout

    def _environment(self):
        """Nothing of this machine's own settings, and nothing is written to them."""
        own = {"JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"}
        return {
            **os.environ,
            **{name: str(self.folder / name.lower()) for name in own},
            "COURSE_LIB_PROGRESS": str(self.folder / "progress.jsonl"),
            "PYTHONPATH": str(HOME),
            # it calls the program alembic
            "PATH": f"{HOME / 'bin'}:{os.environ['PATH']}",
        }


def refuse_missing() -> None:
    """Errors: `NbgraderFailed` if nbgrader is not installed beside this Python."""
    if (HOME / "nbgrader").is_dir():
        return
    if sys.version_info < (3, 11):
        raise NbgraderFailed(
            f"nbgrader {VERSION} needs Python 3.11 or newer, this is"
            f" {platform.python_version()}. Run: rm -rf .venv; PYTHON=python3.11 make"
            " setup"
        )
    raise NbgraderFailed(
        f"no nbgrader in {HOME}. Install it there with: make .venv/.nbgrader"
    )
