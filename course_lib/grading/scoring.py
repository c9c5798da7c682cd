"""From what became of the cells of a notebook to the points of its tasks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from course_lib.grading.grades import (
    CRASHED,
    LATE,
    NOT_STARTED,
    NOT_YET,
    RIGHT,
    SUSPECT,
    Task,
)
from course_lib.grading.notebook.assignment import Assignment, Check
from course_lib.grading.notebook.merging import Merged

_STUBS = ("NotStarted", "NotImplementedError")  # what a stub, or its check, raises
_FROM_TOP = (
    "Grading runs the notebook from top to bottom. If it works for you, that name is"
    " made further down: try Restart Kernel and Run All Cells."
)
_SILENT = (
    "its points are withheld: this check passed and did not say so. Look at what the"
    " cells before it change."
)
_OWN = "CourseError"  # what a check raises that itself failed


@dataclass
class Course:
    """How a notebook ran: what `exam` said of each cell, and what was taken out of it.

    `replaced` has for each cell that had to be taken out its outcome and the reason.
    """

    cells: dict[str, dict] = field(default_factory=dict)
    replaced: dict[str, tuple[str, str]] = field(default_factory=dict)
    cut: str = "the time of the whole notebook was over"  # why some did not run


def tasks(assignment: Assignment, ran: Course, *, canary=False) -> tuple[Task, ...]:
    """The task of each check, in order."""
    found = []
    for check in assignment.checks:
        outcome, said, hint = _judged(assignment, ran, check)
        if canary and outcome == RIGHT:
            outcome, said = _canary(ran, check, said)
        points = check.points if outcome == RIGHT else 0.0
        found.append(
            Task(check.exercise, points, check.points, outcome, message=said, hint=hint)
        )
    return tuple(found)


def notes(merged: Merged, ran: Course, found: Iterable[Task]) -> Iterator[str]:
    """What cells did that no task tells."""
    told = set()
    for check, task in zip(merged.assignment.checks, found, strict=True):
        if task.outcome in (CRASHED, LATE):
            answers = merged.assignment.answers(check.cell)
            told |= {check.cell, *(answer["id"] for answer in answers)}
    for name, cell in ran.cells.items():
        if cell.get("cut"):
            size = cell["cut"] / 1e6
            yield f"{name}: {size:.1f} MB of what it shows were left out"
        if name in ran.replaced.keys() - told:
            yield f"{name} was left out: {ran.replaced[name][1]}"
        elif cell.get("outcome") == "late" and name in merged.learners - told:
            yield f"{name} did not end in {cell['seconds']:.0f} s: it was interrupted"


def broken(assignment: Assignment, ran: Course) -> str:
    """What a check said that failed by a fault of its own; else nothing."""
    cells = [ran.cells.get(check.cell, {}) for check in assignment.checks]
    texts = [cell["text"] for cell in cells if cell.get("kind") == _OWN]
    return f"a check failed, or the notebook makes it so: {texts[0]}" if texts else ""


def _judged(assignment, ran, check):
    """Outcome, sentence and hint of one check."""
    cell = ran.cells.get(check.cell, {})
    if cell.get("outcome") == "passed":
        said = cell.get("text", "")
        silent = not cell.get("cut") and not said.startswith(check.passed)
        return (SUSPECT, _SILENT, "") if silent else (RIGHT, said, "")
    if check.cell in ran.replaced:
        return *ran.replaced[check.cell], ""
    for answer in assignment.answers(check.cell):
        outcome = _unusable(ran, answer["id"])
        if outcome:
            return *outcome, _advice(outcome[1])
    return _failed(cell, ran.cut)


def _unusable(ran, answer):
    """Why the cell of an answer could not be used, or None."""
    if answer in ran.replaced:
        outcome, why = ran.replaced[answer]
        return outcome, f"in the cell of the answer: {why}"
    cell = ran.cells.get(answer, {})
    if cell.get("outcome") == "late":
        return LATE, "the cell of the answer did not end in its time"
    if cell.get("outcome") == "failed" and cell.get("kind") not in _STUBS:
        return NOT_YET, f"the cell of the answer fails: {_error(cell)}"
    return None


def _failed(cell, cut):
    """What a check says of an answer that is not right."""
    from course_lib.exercises.checking import parts

    if cell.get("outcome") == "late":
        return LATE, "the check did not end in its time", ""
    if not cell:
        return LATE, f"it was not run: {cut}", ""
    kind = cell.get("kind", "")
    outcome = NOT_STARTED if kind in _STUBS else NOT_YET
    if kind == "NotYet" or kind == "NotStarted":
        said, hint = parts(cell["text"])
        return outcome, said, hint or _advice(said)
    return outcome, _error(cell), _advice(_error(cell))


def _advice(said):
    """The hint for an error that a notebook does not show while it is worked on."""
    return _FROM_TOP if "NameError: name " in said else ""


def _error(cell):
    kind, text = cell.get("kind", ""), cell.get("text", "").strip()
    return ": ".join(filter(None, (kind, text)))


def _canary(ran, check, said):
    """The outcome of a check that passed, after it met the stub in place of answers."""
    outcome = ran.cells.get(f"canary-{check.cell}", {}).get("outcome")
    if outcome == "failed":
        return RIGHT, said
    how = "accepts the empty stub too" if outcome == "passed" else "was not run again"
    return SUSPECT, (
        f"{check.points:g} points are withheld: with the stub in place of the answer"
        f" this check {how}. Look at what the cells before it change."
    )


def seconds(assignment: Assignment, usual: float) -> Mapping[str, float]:
    """How long each check may take, and its canary."""
    found = {}
    for check in assignment.checks:
        found[check.cell] = found[f"canary-{check.cell}"] = _limit(check, usual)
    return found


def _limit(check: Check, usual):
    return usual if check.timeout is None else check.timeout
