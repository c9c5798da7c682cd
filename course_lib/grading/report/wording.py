"""Marks and words for grades, and text of submissions made harmless to show."""

import re

from course_lib.grading import grades
from course_lib.grading.grades import Grade, Task

MARKS = {
    grades.RIGHT: "✓",
    grades.NOT_YET: "✗",
    grades.NOT_STARTED: "○",
    grades.LATE: "…",
    grades.CRASHED: "!",
    grades.SUSPECT: "?",
}
MEANINGS = {
    grades.RIGHT: "right",
    grades.NOT_YET: "not yet",
    grades.NOT_STARTED: "not started",
    grades.LATE: "too slow",  # "late" reads as if it was handed in too late
    grades.CRASHED: "crashed",
    grades.SUSPECT: "suspect",
}
FLAG = "⚑"
NOTED = "Mended or left out"  # the title of what a grade calls repairs
_KINDS = {grades.RIGHT, grades.NOT_YET, grades.NOT_STARTED}
_UNSAID = {
    grades.FLAGGED: "flagged, for a reason that was not given.",
    grades.REFUSED: "this file cannot be graded.",
    grades.FAILED: "the grader failed. Grade it again.",
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
    """The lines of a text of any origin, without what terminals would obey."""
    text = _ANSI.sub("", text.replace("\r\n", "\n")).replace("\r", "\n")
    text = re.sub("[\u2028\u2029]", "\n", text).expandtabs(4)
    text = _HALF.sub("\ufffd", _CONTROL.sub("", text)).strip("\n").rstrip()
    if len(text) > _LONGEST:
        return f"{text[:_LONGEST]}\n({len(text) - _LONGEST} more characters)"
    return text


def line(text: str, most: int = 100) -> str:
    """A text of any origin as one line of at most `most` characters."""
    words = " ".join(clean(text).split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


def name(grade: Grade) -> str:
    """The learner, in one line."""
    return line(grade.learner) or "(no name)"


def notebook(grade: Grade) -> str:
    """The name of the notebook, in one line."""
    return line(grade.notebook) or "unknown notebook"


def number(points: float) -> str:
    """Points without needless digits: `7`, `7.5`."""
    return f"{round(points, 2):.10g}"


def amount(graded: Grade | Task) -> str:
    """`7 of 12`."""
    return f"{number(graded.points)} of {number(graded.max_points)}"


def has_points(grade: Grade) -> bool:
    """False where points would be a lie: no check ran, or the grader failed."""
    return grade.status != grades.FAILED and bool(grade.tasks)


def score(grade: Grade) -> str:
    """`7 of 12`, or why there are no points: `refused`, `not graded`."""
    if has_points(grade):
        return amount(grade)
    return "refused" if grade.status == grades.REFUSED else "not graded"


def sentence(task: Task) -> str:
    """What the check said, without the mark and outcome that are shown beside it.

    Nothing for a task that was not started: the check tells what to do in a notebook.
    """
    if task.outcome == grades.NOT_STARTED:
        return ""
    head = f"{MARKS[task.outcome]} {task.id} {task.outcome}: "
    return clean(task.message).removeprefix(head)


def hint(task: Task) -> str:
    """The hint of the check, or nothing."""
    return clean(task.hint).removeprefix("Hint: ")


def reason(grade: Grade) -> str:
    """Why a person should look at a grade; nothing if nobody needs to."""
    suspect = [task.id for task in grade.tasks if task.outcome == grades.SUSPECT]
    if grade.status == grades.GRADED and not suspect:
        return ""
    if said := clean(grade.message):
        return said
    if suspect:
        checks = "checks" if len(suspect) > 1 else "check"
        return f"the {checks} of {', '.join(suspect)} may have been changed."
    return _UNSAID[grade.status]


def kind(outcome: str) -> str:
    """`right`, `not yet`, `not started`; the rare ones are `other`."""
    return outcome if outcome in _KINDS else "other"
