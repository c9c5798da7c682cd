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
class Execution:
    """How a notebook ran: what `nbval_plugin` said of its cells, which were taken out.

    `replaced` has for each cell that had to be taken out its outcome and the reason.
    """

    cells: dict[str, dict] = field(default_factory=dict)
    replaced: dict[str, tuple[str, str]] = field(default_factory=dict)
    cut: str = "the time of the whole notebook was over"  # why some did not run


def tasks(
    assignment: Assignment, execution: Execution, *, canary=False
) -> tuple[Task, ...]:
    """Return the task of each check, in order."""
    scored = []
    for check in assignment.checks:
        outcome, sentence, hint = _judged(execution, check)
        if canary and outcome == RIGHT:
            outcome, sentence = _canary(execution, check, sentence)
        points = check.points if outcome == RIGHT else 0.0
        texts = {"message": sentence, "hint": hint}
        scored.append(Task(check.exercise, points, check.points, outcome, **texts))
    return tuple(scored)


def notes(
    merged: Merged, execution: Execution, scored: Iterable[Task]
) -> Iterator[str]:
    """Yield what cells did that no task tells."""
    told = set()
    for check, task in zip(merged.assignment.checks, scored, strict=True):
        if task.outcome in (CRASHED, LATE):
            told |= {check.cell, *(answer.id for answer in check.answers)}
    for name, cell in execution.cells.items():
        if cell.get("cut"):
            size = cell["cut"] / 1e6
            yield f"{name}: {size:.1f} MB of what it shows were left out"
        if name in execution.replaced.keys() - told:
            yield f"{name} was left out: {execution.replaced[name][1]}"
        elif cell.get("outcome") == "late" and name in merged.learners - told:
            yield f"{name} did not end in {cell['seconds']:.0f} s: it was interrupted"


def broken(assignment: Assignment, execution: Execution) -> str:
    """Return what a check said that failed by a fault of its own; else nothing."""
    cells = [execution.cells.get(check.cell, {}) for check in assignment.checks]
    texts = [cell["text"] for cell in cells if cell.get("kind") == _OWN]
    return f"a check failed, or the notebook makes it so: {texts[0]}" if texts else ""


def _judged(execution, check):
    """Outcome, sentence and hint of one check."""
    cell = execution.cells.get(check.cell, {})
    if cell.get("outcome") == "passed":
        sentence = cell.get("text", "")
        silent = not cell.get("cut") and not sentence.startswith(check.passed)
        return (SUSPECT, _SILENT, "") if silent else (RIGHT, sentence, "")
    if check.cell in execution.replaced:
        return *execution.replaced[check.cell], ""
    for answer in check.answers:
        if unusable := _unusable(execution, answer.id):
            return *unusable, _advice(unusable[1])
    return _failed(cell, execution.cut)


def _unusable(execution, answer):
    """Why the cell of an answer could not be used, or None."""
    if answer in execution.replaced:
        outcome, why = execution.replaced[answer]
        return outcome, f"in the cell of the answer: {why}"
    cell = execution.cells.get(answer, {})
    if cell.get("outcome") == "late":
        return LATE, "the cell of the answer did not end in its time"
    if cell.get("outcome") == "failed" and cell.get("kind") not in _STUBS:
        return NOT_YET, f"the cell of the answer fails: {_error(cell)}"
    return None


def _failed(cell, cut):
    """What a check says of an answer that is not right."""
    if cell.get("outcome") == "late":
        return LATE, "the check did not end in its time", ""
    if not cell:
        return LATE, f"it was not run: {cut}", ""
    kind = cell.get("kind", "")
    outcome = NOT_STARTED if kind in _STUBS else NOT_YET
    sentence = cell["text"] if "hint" in cell else _error(cell)
    return outcome, sentence, cell.get("hint") or _advice(sentence)


def _advice(sentence):
    """The hint for an error that a notebook does not show while it is worked on."""
    return _FROM_TOP if "NameError: name " in sentence else ""


def _error(cell):
    kind, text = cell.get("kind", ""), cell.get("text", "").strip()
    return ": ".join(filter(None, (kind, text)))


def _canary(execution, check, sentence):
    """The outcome of a check that passed, after it met the stub in place of answers."""
    outcome = execution.cells.get(f"canary-{check.cell}", {}).get("outcome")
    if outcome == "failed":
        return RIGHT, sentence
    how = "accepts the empty stub too" if outcome == "passed" else "was not run again"
    return SUSPECT, (
        f"{check.points:g} points are withheld: with the stub in place of the answer"
        f" this check {how}. Look at what the cells before it change."
    )


def seconds(assignment: Assignment, usual: float) -> Mapping[str, float]:
    """Return how long each check may take, and its canary."""
    limits = {}
    for check in assignment.checks:
        limits[check.cell] = limits[f"canary-{check.cell}"] = _limit(check, usual)
    return limits


def _limit(check: Check, usual):
    return usual if check.timeout is None else check.timeout
