"""Grades in a terminal: one in full, several as a table, and how far grading is."""

import threading
from collections import Counter
from collections.abc import Sequence

import rich.progress
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from course_lib.grading import grades as states
from course_lib.grading import tally, wording
from course_lib.grading.grades import Grade

_STYLES = {
    states.RIGHT: "green",
    states.NOT_YET: "red",
    states.NOT_STARTED: "",
    states.LATE: "yellow",
    states.CRASHED: "yellow",
    states.SUSPECT: "bold yellow",
}
_NAME = 16  # columns that a learner's name has at least


def show(grades: Sequence[Grade], console: Console) -> None:
    """Print grades: a single one in full, several as tables and what they share."""
    if len(grades) == 1:
        _show_one(grades[0], console)
        return
    names = max((len(wording.notebook(grade)) for grade in grades), default=0)
    groups = tally.notebooks(grades).values()
    blocks = [[_table(group, names, console.width)] for group in groups]
    totals = [*_means(grades), *_together(grades), *_most_missed(grades)]
    blocks += [list(_legend(grades)), totals, list(_to_look_at(grades))]
    for number, block in enumerate(filter(None, blocks)):
        for text in [Text(), *block] if number else block:
            console.print(text)


def _table(group, names, width):
    """The submissions of one notebook, whose name heads the column of learners."""
    ids = tally.exercises(group).get(group[0].notebook, [])
    gap = 2 if _left(ids, width, gap=2) >= names else 1
    left = _left(ids, width, gap=gap)
    apart = left >= _NAME
    # the box itself puts a blank between columns
    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), show_edge=False)
    title, least = Text(wording.notebook(group[0])), left if apart else _NAME
    table.add_column(title, overflow="fold", min_width=min(names, least))
    table.add_column("points", justify="right", no_wrap=True, min_width=8)
    for one in ids if apart else []:
        table.add_column(Text(one), justify="center", no_wrap=True)
    if not apart:
        table.add_column("exercises", overflow="fold")
    table.add_column("")
    again = Counter(grade.learner for grade in group)
    for grade in group:
        marks = _marks(grade, ids)
        table.add_row(
            _who(grade, again[grade.learner] > 1),
            wording.score(grade),
            *(marks if apart else [Text().join(marks)]),
            wording.FLAG if wording.reason(grade) else "",
        )
    return table


def _left(ids, width, *, gap):
    """The columns that points, marks and flag leave for names."""
    return width - sum(len(one) + gap for one in ids) - len("not graded") - 3 * gap


def _who(grade, ambiguous):
    who = Text(wording.name(grade))
    if ambiguous:  # two files of one learner
        who.append(f" {wording.line(grade.source)}", style="dim")
    return who


def _marks(grade, ids):
    tasks = grade.tasks if wording.has_points(grade) else ()
    outcomes = {task.id: task.outcome for task in tasks}
    found = [outcomes.get(one) for one in ids]
    return [Text(wording.MARKS.get(x, " "), style=_STYLES.get(x, "")) for x in found]


def _legend(grades):
    """The marks that occur."""
    scored = filter(wording.has_points, grades)
    seen = {task.outcome for grade in scored for task in grade.tasks}
    parts = [
        f"{mark} {wording.MEANINGS[outcome]}"
        for outcome, mark in wording.MARKS.items()
        if outcome in seen
    ]
    if any(map(wording.reason, grades)):
        parts.append(f"{wording.FLAG} see below")
    if parts:
        yield Text("  ".join(parts), style="dim")


def _means(grades):
    for one in tally.points(grades):
        if len(one.points) > 1:
            most = wording.number(one.max_points)
            yield Text(
                f"{wording.line(one.notebook)}: {one.mean:.1f} of {most} points on"
                f" average, {len(one.points)} graded"
            )


def _most_missed(grades):
    counts = [count for count in tally.counts(grades) if count.total > 1]
    first = [f"{c.id} by {c.missed} of {c.total}" for c in counts if c.missed][:3]
    if first:
        yield Text(f"Most missed: {', '.join(first)}")


def _together(grades):
    """All points of a learner who handed in several notebooks."""
    people, points = tally.learners(grades), tally.points(grades)
    if len(people) == 1 and len(points) > 1:
        yield Text(f"Together {wording.total(grades)}")


def _to_look_at(grades):
    found = [grade for grade in grades if wording.reason(grade)]
    if found:
        yield Text(f"A person should look at {len(found)}:", style="bold")
    for grade in found:
        parts = (wording.name(grade), wording.notebook(grade), wording.score(grade))
        yield Text(f"{wording.FLAG} {', '.join(parts)}")
        yield _Indented(wording.reason(grade))
        yield _Indented(wording.line(grade.source, 300), style="dim")


def _show_one(grade, console):
    """A grade with all that its checks said."""
    head = f"{wording.name(grade)}, {wording.notebook(grade)}: {wording.score(grade)}"
    unit = " points" if wording.has_points(grade) else ""
    console.print(Text(head + unit, style="bold"))
    if why := wording.reason(grade):
        console.print(Text(f"{wording.FLAG} {why}", style="yellow"))
    for task in grade.tasks if unit else ():
        _show_task(task, console)
    if grade.repairs:
        console.print(Text("\nMended before grading:"))
    for repair in grade.repairs:
        console.print(_Indented(f"- {wording.line(repair, 300)}"))


def _show_task(task, console):
    mark = wording.MARKS[task.outcome]
    head = Text(f"\n{mark} {task.id} {wording.MEANINGS[task.outcome]}", style="bold")
    head.stylize(_STYLES[task.outcome])
    head.append(f", {wording.amount(task)} points", style="not bold")
    console.print(head)
    if said := wording.sentence(task):
        console.print(_Indented(said))
    if hint := wording.hint(task):
        console.print(_Indented(f"Hint: {hint}"))


class _Indented:
    """A text that is wrapped a little to the right, without blanks at line ends."""

    def __init__(self, text, style=""):
        self.text = Text(text, style=style)

    def __rich_console__(self, console, options):
        for line in self.text.wrap(console, options.max_width - 2):
            line.rstrip()
            yield Text("  ").append_text(line)


class Progress:
    """How far grading is: a bar in a terminal, else a line for each submission done.

    It goes to stderr. Threads may use one together.
    """

    def __init__(self, total: int, console: Console | None = None):
        self.total, self.done = total, 0
        self._console = console or Console(stderr=True)
        self._working, self._lock = [], threading.Lock()
        # FORCE_COLOR makes rich call a log file a terminal
        drawn = self._console.is_interactive and self._console.file.isatty()
        self._bar = _bar(self._console) if drawn else None

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
            text = wording.line(self._working[0], 30) if self._working else ""
            self._bar.update(self._task, completed=self.done, description=text)

    def _print(self, grade):
        parts = (wording.name(grade), wording.notebook(grade), wording.score(grade))
        text = Text(f"[{self.done}/{self.total}] {' '.join(parts)}")
        self._console.print(text, soft_wrap=True)


def _bar(console):
    plain = rich.progress.TextColumn("{task.description}", markup=False)
    return rich.progress.Progress(
        rich.progress.MofNCompleteColumn(),
        rich.progress.BarColumn(20),
        rich.progress.TimeElapsedColumn(),
        rich.progress.TimeRemainingColumn(),
        plain,
        console=console,
        transient=True,
        refresh_per_second=2,
        speed_estimate_period=600,
        redirect_stdout=False,  # it would go to stderr
    )
