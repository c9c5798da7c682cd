"""Grades in a terminal: how far grading is, one grade in full, several as a table."""

import threading
from collections import Counter
from collections.abc import Sequence

import rich.progress
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from course_lib.grading.grades import (
    CRASHED,
    LATE,
    NOT_STARTED,
    NOT_YET,
    RIGHT,
    SUSPECT,
    Grade,
)
from course_lib.grading.report import summary

_STYLES = {
    RIGHT: "green",
    NOT_YET: "red",
    NOT_STARTED: "",
    LATE: "yellow",
    CRASHED: "yellow",
    SUSPECT: "bold yellow",
}
_NAME = 16  # columns that a learner's name has at least
_SEVERAL = 10  # submissions, of which the first tell how long the others will take


class Progress:
    """How far grading is: a bar in a terminal, else a line for each submission done.

    It goes to stderr. Threads may use one together.
    """

    def __init__(self, total: int, console: Console | None = None):
        self.total, self.done = total, 0
        self._console = console or Console(stderr=True)
        self._working = []
        self._lock = threading.Lock()
        # FORCE_COLOR makes rich call a log file a terminal
        drawn = self._console.is_interactive and self._console.file.isatty()
        self._bar = _bar(self._console, total) if drawn else None

    def __enter__(self):
        if self._bar:
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total)
        return self

    def __exit__(self, *error):
        if self._bar:
            self._bar.stop()

    def start(self, name: str) -> None:
        """Say that the submission of this name is in work."""
        with self._lock:
            self._working.append(name)
            self._draw()

    def finish(self, name: str, grade: Grade) -> None:
        """Say that it is done, and what came out."""
        with self._lock:
            if name in self._working:
                self._working.remove(name)
            self.done += 1
            self._draw()
            if not self._bar:
                self._print(grade)

    def _draw(self):
        if self._bar:
            text = summary.line(self._working[0], 30) if self._working else ""
            self._bar.update(self._task, completed=self.done, description=text)

    def _print(self, grade):
        parts = (
            summary.learner_name(grade),
            summary.notebook_name(grade),
            summary.score(grade),
        )
        text = Text(f"[{self.done}/{self.total}] {' '.join(parts)}")
        self._console.print(text, soft_wrap=True)


def _bar(console, total):
    columns = [rich.progress.MofNCompleteColumn(), rich.progress.BarColumn(20)]
    columns.append(rich.progress.TimeElapsedColumn())
    if total >= _SEVERAL:
        columns.append(rich.progress.TimeRemainingColumn())
    columns.append(rich.progress.TextColumn("{task.description}", markup=False))
    return rich.progress.Progress(
        *columns,
        console=console,
        transient=True,
        refresh_per_second=2,
        speed_estimate_period=600,
        redirect_stdout=False,  # it would go to stderr
    )


def show(grades: Sequence[Grade], console: Console) -> None:
    """Print grades: a single one in full, several as tables and what they share."""
    blocks = list(_in_full(grades[0]) if len(grades) == 1 else _all(grades, console))
    for number, block in enumerate(filter(None, blocks)):
        for text in [Text(), *block] if number else block:
            console.print(text)


def _in_full(grade):
    """A grade with all that its checks said, in blocks of lines."""
    whose = f"{summary.learner_name(grade)}, {summary.notebook_name(grade)}"
    head = [Text(f"{whose}: {summary.result(grade)}", style="bold")]
    if reason := summary.reason(grade):
        head.append(Text(f"{summary.FLAG} {reason}", style="yellow"))
    return [head, *map(_task, summary.scored_tasks(grade)), list(_repairs(grade))]


def _all(grades, console):
    names = max((len(summary.notebook_name(grade)) for grade in grades), default=0)
    for group in summary.notebooks(grades).values():
        yield [_table(group, names, console.width)]
    yield list(_legend(grades))
    means, missed = _means(grades), _most_missed(grades)
    yield [*means, *_together(grades), *missed, *_remarks(grades)]
    yield list(_to_look_at(grades))
    if len(summary.learners(grades)) == 1:  # who reads their own wants to know why
        for grade in grades:
            yield from _open(grade)


def _table(group, names, width):
    """The submissions of one notebook, whose name heads the column of learners."""
    ids = summary.exercises(group).get(group[0].notebook, [])
    gap = 2 if _left(ids, width, gap=2) >= names else 1
    left = _left(ids, width, gap=gap)
    apart = left >= _NAME
    # the box itself puts a blank between columns
    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), show_edge=False)
    least = min(names, left if apart else _NAME)
    title = Text(summary.notebook_name(group[0]))
    table.add_column(title, overflow="fold", min_width=least)
    table.add_column("points", justify="right", no_wrap=True, min_width=8)
    for exercise in ids if apart else []:
        table.add_column(Text(exercise), justify="center", no_wrap=True)
    if not apart:
        table.add_column("exercises", overflow="fold")
    table.add_column("")
    files = Counter(grade.learner for grade in group)
    for grade in group:
        marks = _marks(grade, ids)
        table.add_row(
            _who(grade, files[grade.learner] > 1),
            summary.score(grade),
            *(marks if apart else [Text().join(marks)]),
            summary.FLAG if summary.reason(grade) else "",
        )
    return table


def _left(ids, width, *, gap):
    """The columns that points, marks and flag leave for names."""
    marks = sum(len(exercise) + gap for exercise in ids)
    return width - marks - len("not graded") - 3 * gap


def _who(grade, ambiguous):
    who = Text(summary.learner_name(grade))
    if ambiguous:  # two files of one learner
        who.append(f" {summary.line(grade.source)}", style="dim")
    return who


def _marks(grade, ids):
    outcomes = {task.id: task.outcome for task in summary.scored_tasks(grade)}
    row = [outcomes.get(exercise, "") for exercise in ids]
    return [
        Text(summary.MARKS.get(outcome, " "), style=_STYLES.get(outcome, ""))
        for outcome in row
    ]


def _legend(grades):
    """The marks that occur."""
    tasks = (task for grade in grades for task in summary.scored_tasks(grade))
    outcomes = {task.outcome for task in tasks}
    parts = [
        f"{mark} {summary.MEANINGS[outcome]}"
        for outcome, mark in summary.MARKS.items()
        if outcome in outcomes
    ]
    if any(map(summary.reason, grades)):
        parts.append(f"{summary.FLAG} see below")
    if parts:
        yield Text("  ".join(parts), style="dim")


def _means(grades):
    for points in summary.points(grades):
        if len(points.points) > 1:
            most = summary.number(points.max_points)
            yield Text(
                f"{summary.line(points.notebook)}: {points.mean:.1f} of {most} points"
                f" on average, {len(points.points)} graded"
            )


def _most_missed(grades):
    counts = [count for count in summary.counts(grades) if count.total > 1]
    first = [f"{c.id} by {c.missed} of {c.total}" for c in counts if c.missed][:3]
    if first:
        yield Text(f"Most missed: {', '.join(first)}")


def _together(grades):
    """All points of a learner who handed in several notebooks."""
    if len(summary.learners(grades)) == 1 and len(summary.points(grades)) > 1:
        yield Text(f"Together {summary.total_points(grades)}")


def _remarks(grades):
    """What a teacher should know, whose page of a learner nobody opens."""
    if several := summary.twice(grades):
        yield Text(f"The best of several files counts: {', '.join(several)}")
    mended = dict.fromkeys(
        summary.learner_name(grade) for grade in grades if grade.repairs
    )
    if mended and len(summary.learners(grades)) > 1:
        yield Text(f"{summary.NOTED} (--html tells what): {', '.join(mended)}")


def _to_look_at(grades):
    flagged = list(filter(summary.reason, grades))
    if flagged:
        yield Text(f"A person should look at {len(flagged)}:", style="bold")
    for grade in flagged:
        parts = (
            summary.learner_name(grade),
            summary.notebook_name(grade),
            summary.score(grade),
        )
        yield Text(f"{summary.FLAG} {', '.join(parts)}")
        yield _Indented(summary.reason(grade))
        yield _Indented(summary.line(grade.source, 300), style="dim")


def _open(grade):
    """What was said of each task that was tried and is not right; what was noted."""
    for task in summary.scored_tasks(grade):
        if task.outcome not in (RIGHT, NOT_STARTED):
            yield _task(task)
    yield list(_repairs(grade, f" in {summary.notebook_name(grade)}"))


def _task(task):
    """The lines on one task."""
    mark = summary.MARKS[task.outcome]
    head = Text(f"{mark} {task.id} {summary.MEANINGS[task.outcome]}", style="bold")
    head.stylize(_STYLES[task.outcome])
    head.append(f", {summary.amount(task)} points", style="not bold")
    sentence, hint = summary.sentence(task), summary.hint(task)
    texts = [sentence, f"Hint: {hint}" if hint else ""]
    return [head, *map(_Indented, filter(None, texts))]


def _repairs(grade, where=""):
    """The lines on what was mended or left out."""
    if grade.repairs:
        yield Text(f"{summary.NOTED}{where}:")
    for repair in grade.repairs:
        yield _Indented(f"- {summary.line(repair, 300)}")


class _Indented:
    """A text that is wrapped a little to the right.

    rich's Padding would fill the lines with blanks, which a copied text had, too.
    """

    def __init__(self, text, style=""):
        self.text = Text(text, style=style)

    def __rich_console__(self, console, options):
        for line in self.text.wrap(console, options.max_width - 2):
            line.rstrip()
            yield Text("  ").append_text(line)
