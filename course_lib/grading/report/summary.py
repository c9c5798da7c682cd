"""What reports say of one grade and of many, with text that is harmless to show."""

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from course_lib.grading.grades import (
    CRASHED,
    FAILED,
    FLAGGED,
    GRADED,
    LATE,
    NOT_STARTED,
    NOT_YET,
    REFUSED,
    RIGHT,
    SUSPECT,
    Grade,
    Task,
)
from course_lib.text import many

MARKS = {
    RIGHT: "✓",
    NOT_YET: "✗",
    NOT_STARTED: "○",
    LATE: "…",
    CRASHED: "!",
    SUSPECT: "?",
}
MEANINGS = {outcome: outcome for outcome in MARKS}
MEANINGS[LATE] = "too slow"  # "late" reads as if it was handed in too late
FLAG = "⚑"
NOTED = "Mended or left out"  # the title of what a grade calls repairs
_UNSAID = {
    FLAGGED: "flagged, for a reason that was not given.",
    REFUSED: "this file cannot be graded.",
    FAILED: "the grader failed. Grade it again.",
}
_LONGEST = 20_000  # characters of one text

# colours and links of terminals: CSI, then strings up to their end, then the rest
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# also what is not seen, or turns the direction of the text after it (Cf in Unicode)
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e"
    r"\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_HALF = re.compile(r"[\ud800-\udfff]")


def clean(text: str) -> str:
    """Return the lines of a text of any origin, without what terminals would obey."""
    text = _ANSI.sub("", text.replace("\r\n", "\n")).replace("\r", "\n")
    text = re.sub("[\u2028\u2029]", "\n", text).expandtabs(4)
    text = _HALF.sub("\ufffd", _CONTROL.sub("", text)).strip("\n").rstrip()
    if len(text) > _LONGEST:
        return f"{text[:_LONGEST]}\n({len(text) - _LONGEST} more characters)"
    return text


def line(text: str, most: int = 100) -> str:
    """Return a text of any origin as one line of at most `most` characters."""
    words = " ".join(clean(text).split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


def learner_name(grade: Grade) -> str:
    """Return the learner, in one line."""
    return line(grade.learner) or "(no name)"


def notebook_name(grade: Grade) -> str:
    """Return the name of the notebook, in one line."""
    return line(grade.notebook) or "unknown notebook"


def number(points: float) -> str:
    """Return points without needless digits: `7`, `7.5`."""
    return f"{round(points, 2):.10g}"


def amount(graded: Grade | Task) -> str:
    """Return `7 of 12`."""
    return f"{number(graded.points)} of {number(graded.max_points)}"


def has_points(grade: Grade) -> bool:
    """Return False where points would be a lie: no check ran, or the grader failed."""
    return grade.status != FAILED and bool(grade.tasks)


def score(grade: Grade) -> str:
    """Return `7 of 12`, or why there are no points: `refused`, `not graded`."""
    if has_points(grade):
        return amount(grade)
    return "refused" if grade.status == REFUSED else "not graded"


def scored_tasks(grade: Grade) -> tuple[Task, ...]:
    """Return the tasks of a grade, none where their points would be a lie."""
    return grade.tasks if has_points(grade) else ()


def result(grade: Grade) -> str:
    """Return `7 of 12 points`, or why there are none."""
    return f"{score(grade)} points" if has_points(grade) else score(grade)


def sentence(task: Task) -> str:
    """Return what the check said, without mark and outcome, which are shown beside it.

    Nothing for a task that was not started: the check tells what to do in a notebook.
    """
    if task.outcome == NOT_STARTED:
        return ""
    head = f"{MARKS[task.outcome]} {task.id} {task.outcome}: "
    return clean(task.message).removeprefix(head)


def hint(task: Task) -> str:
    """Return the hint of the check, or nothing."""
    return clean(task.hint).removeprefix("Hint: ")


def reason(grade: Grade) -> str:
    """Return why a person should look at a grade; nothing if nobody needs to."""
    suspect = [task.id for task in grade.tasks if task.outcome == SUSPECT]
    if grade.status == GRADED and not suspect:
        return ""
    if message := clean(grade.message):
        return message
    if suspect:
        checks = "checks" if len(suspect) > 1 else "check"
        return f"the {checks} of {', '.join(suspect)} may have been changed."
    return _UNSAID[grade.status]


@dataclass(frozen=True)
class Count:
    """How often one exercise had each outcome."""

    notebook: str
    id: str
    outcomes: Counter

    @property
    def total(self) -> int:
        """How many submissions have this exercise."""
        return self.outcomes.total()

    @property
    def missed(self) -> int:
        """How many of them did not get it right."""
        return self.total - self.outcomes[RIGHT]

    @property
    def share(self) -> float:
        """What part of them did not."""
        return self.missed / self.total


@dataclass(frozen=True)
class Points:
    """The points of all graded submissions of one notebook."""

    notebook: str
    points: tuple[float, ...]
    max_points: float

    @property
    def mean(self) -> float:
        """The mean of the points."""
        return statistics.mean(self.points)

    @property
    def median(self) -> float:
        """Half of the submissions have so many points or more."""
        return statistics.median_high(self.points)

    @property
    def share(self) -> float:
        """The mean as a part of all points."""
        return self.mean / self.max_points if self.max_points else 0.0


def best(grades: Iterable[Grade]) -> list[Grade]:
    """Return of several files of a learner for a notebook that with most points.

    What has no points is left out.
    """
    return [max(tries, key=attrgetter("points")) for tries in _tries(grades).values()]


def _tries(grades):
    return _grouped(filter(has_points, grades), attrgetter("learner", "notebook"))


def _grouped(grades, key):
    groups = {}
    for grade in grades:
        groups.setdefault(key(grade), []).append(grade)
    return groups


def total_points(grades: Sequence[Grade]) -> str:
    """Return the points of a learner: `7 of 14 points`, and what has none."""
    scored, parts = best(grades), []
    if scored:
        points = number(sum(grade.points for grade in scored))
        most = number(sum(grade.max_points for grade in scored))
        parts.append(f"{points} of {most} points")
    if without := sum(not has_points(grade) for grade in grades):
        parts.append(f"{many(without, 'notebook')} without points")
    return ", ".join(parts)


def twice(grades: Iterable[Grade]) -> list[str]:
    """Return the learners with several files of one notebook that have points."""
    several = [tries for tries in _tries(grades).values() if len(tries) > 1]
    return list(dict.fromkeys(learner_name(tries[0]) for tries in several))


def notebooks(grades: Iterable[Grade]) -> dict[str, list[Grade]]:
    """Return the grades of each notebook, by its name."""
    by_notebook = attrgetter("notebook")
    return _grouped(sorted(grades, key=by_notebook), by_notebook)


def learners(grades: Iterable[Grade]) -> dict[str, list[Grade]]:
    """Return the grades of each learner, by their names without regard to case."""
    order = sorted(grades, key=lambda grade: (grade.learner.casefold(), grade.notebook))
    return _grouped(order, attrgetter("learner"))


def exercises(grades: Iterable[Grade]) -> dict[str, list[str]]:
    """Return the exercises of each graded notebook, in the order of the course."""
    groups = notebooks(grade for grade in grades if grade.tasks)
    return {notebook: _ids(group) for notebook, group in groups.items()}


def _ids(group):
    # the longest first: it has the order for what is missing in others
    longest = sorted(group, key=lambda grade: -len(grade.tasks))
    return list(dict.fromkeys(task.id for grade in longest for task in grade.tasks))


def points(grades: Iterable[Grade]) -> list[Points]:
    """Return the points of each notebook; what the grader failed on does not count."""
    return [
        Points(
            notebook,
            tuple(grade.points for grade in group),
            max(grade.max_points for grade in group),
        )
        for notebook, group in notebooks(best(grades)).items()
    ]


def counts(grades: Iterable[Grade]) -> list[Count]:
    """Return the outcomes of each exercise, the one that most people missed first."""
    scored = best(grades)
    outcomes = {
        (notebook, exercise): Counter()
        for notebook, ids in exercises(scored).items()
        for exercise in ids
    }
    for grade in scored:
        for task in grade.tasks:
            outcomes[grade.notebook, task.id][task.outcome] += 1
    all_of_them = [Count(*key, counter) for key, counter in outcomes.items()]
    return sorted(all_of_them, key=lambda count: -count.share)
