"""The exercise notebooks as they are handed out: their checks, and whose copy it is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from course_lib.authoring import release
from course_lib.errors import CourseError, UsageError
from course_lib.grading.handed_in.submissions import Refused
from course_lib.grading.notebook import cells
from course_lib.grading.notebook.cells import Handed
from course_lib.workspace.cell import Cell, exercise_named, free_id
from course_lib.workspace.notebooks import is_released

NO_EXERCISE = (
    "not one of the exercises: it holds none of their answers and checks. Hand in the"
    " notebook of the folder exercises in which you wrote your answers."
)
_ID = re.compile(r"(?!(own|extra|stub|canary)-)[A-Za-z0-9_-]{1,50}")


class Absent(CourseError):
    """The exercise of a notebook is not in the folder: no fault of the learner's."""


@dataclass(frozen=True)
class Check:
    """A check of an exercise: the id of its cell, its points, its time in seconds.

    What it shows begins with `passed` if the answer is right. `answers` belong to it.
    """

    cell: str
    exercise: str
    points: float
    timeout: float | None = None
    passed: str = ""
    answers: Sequence[Cell] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Assignment:
    """An exercise notebook as it is handed out.

    Each of its cells has an id of its own; `known` gives it for each id and grade_id
    of the file, which is `content`.
    """

    name: str
    stage: str
    cells: tuple[Cell, ...] = field(repr=False)
    content: bytes = field(repr=False)
    known: Mapping[str, str] = field(repr=False)

    @cached_property
    def checks(self) -> list[Check]:
        """The checks in the order of the notebook."""
        return [_check(cell, self.cells) for cell in self.cells if cell.role == "check"]


def _answers(canonical, check):
    """The answers that belong to a check: of its exercise, else those above it."""
    exercise = exercise_named(check.grade_id)
    answers = [cell for cell in canonical if cell.role == "answer"]
    same = [cell for cell in answers if exercise_named(cell.grade_id) == exercise]
    return same if exercise and same else _above(canonical, check)


def _above(canonical, check):
    """The answers between a check and the check before it that follows an answer."""
    answers, done = [], False
    for cell in canonical[: canonical.index(check)]:
        if cell.role == "answer":
            answers = [cell] if done else [*answers, cell]
            done = False
        elif cell.role == "check":
            done = True
    return answers


def _check(cell, canonical):
    exercise = exercise_named(cell.grade_id) or cell.grade_id
    timeout = cell.course.get("timeout")
    timeout = float(timeout) if type(timeout) in (int, float) and timeout > 0 else None
    points = float(cell.grader["points"])
    passed = f"✓ {exercise} right" if "cl.check(" in cell.source else ""
    answers = _answers(canonical, cell)
    return Check(cell.id, exercise, points, timeout, passed, answers)


def load_assignments(folder: Path) -> list[Assignment]:
    """Return the exercises of a folder: each notebook that holds a check, by file name.

    With a folder solutions/ beside it, as in the course, they are what its notebooks
    give: who works in this clone has written into the exercises.

    Errors: `UsageError` for a folder without one, a notebook that cannot be read, and
    for two that hold the same checks of one stage.
    """
    if not folder.is_dir():
        raise UsageError(
            f"no folder {folder}: name the folder of the exercises as they are handed"
            " out"
        )
    solutions = _notebooks(folder.parent / "solutions")
    paths = [folder / path.name for path in solutions] or _notebooks(folder)
    assignments = [read for read in map(_read, paths) if read.checks]
    if not assignments:
        raise UsageError(
            f"no exercise in {folder}: none of its {len(paths)} notebooks holds a"
            " check, a cell with grade: true in its nbgrader metadata"
        )
    _refuse_twins(assignments, folder)
    return assignments


def _notebooks(folder):
    return sorted(p for p in folder.glob("*.ipynb") if not p.name.startswith("."))


def _refuse_twins(assignments, folder):
    first = {}
    for assignment in assignments:
        for check in assignment.checks:
            other = first.setdefault((assignment.stage, check.cell), assignment)
            if other is not assignment and assignment.stage:
                raise UsageError(
                    f"two notebooks of {folder} hold {check.cell}: {other.name} and"
                    f" {assignment.name}. Take out the one that is not handed out."
                )


def _read(path):
    try:
        solution = path.parent.parent / "solutions" / path.name
        as_it_is = not solution.exists() or _untouched(path)
        content = path.read_bytes() if as_it_is else release.exercise_file(solution)
        return _assignment(path.stem, content, cells.tidy(cells.parse(content)))
    except (OSError, Refused, ValueError) as error:
        raise UsageError(
            f"cannot read the exercise {path}: {error}. Nothing is graded without it."
        ) from None


def _untouched(path):
    """True for an exercise as it was released, though perhaps run."""
    try:
        notebook = cells.parse(path.read_bytes())
    except (OSError, Refused):
        return False
    notebook["cells"] = [raw for raw in notebook["cells"] if isinstance(raw, dict)]
    return is_released(notebook)


def _assignment(name, content, notebook):
    """Errors: `ValueError` for a check without id or points, an id that is twice."""
    canonical, by_id, by_grade = {}, {}, {}
    for number, cell in enumerate(notebook.cells, 1):
        if cell.role == "check":
            _refuse_vague(cell)
        if cell.grade_id and cell.grade_id in by_grade:
            raise ValueError(f"two cells have the grade_id {cell.grade_id}")
        names = (cell.grade_id, cell.id)
        fit = [n for n in names if _ID.fullmatch(n) and n not in canonical]
        place = fit[0] if fit else free_id(f"cell-{number}", canonical)
        by_id[cell.id] = by_grade[cell.grade_id] = place
        canonical[place] = replace(cell, id=place)
    known = by_id | by_grade
    known.pop("", None)
    return Assignment(name, notebook.stage, (*canonical.values(),), content, known)


def _refuse_vague(cell):
    points = cell.grader.get("points")
    if not cell.grade_id:
        raise ValueError("a check has no grade_id in its nbgrader metadata")
    number = points if type(points) in (int, float) else None
    if number is None or not 0 <= number < float("inf"):
        raise ValueError(f"{cell.grade_id} has {points!r} points, a number is expected")


def choose(notebook: Handed, assignments: Sequence[Assignment]) -> Assignment:
    """Return the exercise that a notebook is a copy of, by what is in it.

    Errors: `Refused` for a notebook that is no exercise; `Absent` if its exercise is
    not among these.
    """
    stage, handed = notebook.stage, notebook.cells
    named = [each for each in assignments if stage and each.stage == stage]
    for among in (named, assignments):
        strict = bool(stage) and not named
        scores = [_likeness(handed, each, strict) for each in among]
        if any(map(any, scores)):
            return among[scores.index(max(scores))]
    names = {name for cell in handed for name in (cell.grade_id, cell.id)}
    foreign = sorted(filter(exercise_named, names))
    if foreign:
        have = ", ".join(assignment.name for assignment in assignments)
        raise Absent(
            f"this notebook holds {cells.short(foreign[0])}, which none of these"
            f" exercises has: {have}. Grade it with those that it was made from."
        )
    raise Refused(NO_EXERCISE)


def _likeness(handed, assignment, strict):
    """How many ids for graders, ids of cells and sources of checks are shared.

    With `strict` the first alone counts: the notebook names another exercise.
    """
    solid = [c for c in assignment.cells if c.role in ("check", "answer", "locked")]
    ids = {c.id for c in solid}
    graded = {assignment.known.get(c.grade_id) for c in handed} & ids
    if strict:
        return len(graded), 0, 0
    named = {assignment.known.get(c.id) for c in handed} & ids
    locked = {c.plain for c in solid if c.role != "answer"} - {""}
    same = locked & {c.plain for c in handed}
    return len(graded), len(named), len(same)
