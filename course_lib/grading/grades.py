"""What grading found: a grade for each notebook, a task for each of its checks."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

# outcomes of a task
RIGHT = "right"
NOT_YET = "not yet"
NOT_STARTED = "not started"
LATE = "late"  # the check, or a cell before it, did not end in its time
CRASHED = "crashed"  # a cell ended its kernel, or used more than its limits
SUSPECT = "suspect"  # the check accepts a stub, too: somebody changed it

# states of a grade
GRADED = "graded"
FLAGGED = "flagged"  # graded, and a person should look at it
REFUSED = "refused"  # this file cannot be graded: its message says why
FAILED = "grader failed"  # no fault of the learner's: there are no points


@dataclass(frozen=True)
class Task:
    """What became of one check: its points, its own sentence and hint."""

    id: str  # the exercise, as in "4.5a"
    points: float
    max_points: float
    outcome: str
    message: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Grade:
    """The grade of one notebook that was handed in.

    `notebook` is the name of the exercise notebook, `source` the file that was read;
    `message` says why there are no tasks, or what a person should look at.
    """

    notebook: str
    learner: str
    source: str
    status: str
    tasks: tuple[Task, ...] = ()
    repairs: tuple[str, ...] = ()
    message: str = ""
    seconds: float = 0.0

    @property
    def points(self) -> float:
        """The points of all tasks together."""
        return sum(task.points for task in self.tasks)

    @property
    def max_points(self) -> float:
        """The points that a right notebook gets."""
        return sum(task.max_points for task in self.tasks)

    def as_dict(self) -> dict:
        """Return plain data for a file; `from_dict` is the way back."""
        sums = {"points": self.points, "max_points": self.max_points}
        return {**asdict(self), **sums}


def from_dict(data: Mapping) -> Grade:
    """Return the grade that `as_dict` was called on.

    Errors: `KeyError`, `TypeError` for anything else.
    """
    plain = {key: data[key] for key in Grade.__dataclass_fields__}
    tasks = tuple(Task(**task) for task in plain.pop("tasks"))
    return Grade(tasks=tasks, repairs=tuple(plain.pop("repairs")), **plain)
