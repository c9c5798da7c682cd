"""Grades in a terminal: one in full, several as a table."""

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from course_lib.grading import grades as states
from course_lib.grading.grades import Grade
from course_lib.grading.report import tally, wording

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
    totals += _remarks(grades)
    blocks += [list(_legend(grades)), totals, list(_to_look_at(grades))]
    if len(tally.learners(grades)) == 1:  # who reads their own wants to know why
        for grade in grades:
            blocks += _open(grade)
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
        yield Text(f"Together {tally.total(grades)}")


def _remarks(grades):
    """What a teacher should know, whose page of a learner nobody opens."""
    if several := tally.twice(grades):
        yield Text(f"The best of several files counts: {', '.join(several)}")
    mended = dict.fromkeys(wording.name(grade) for grade in grades if grade.repairs)
    if mended and len(tally.learners(grades)) > 1:
        yield Text(f"{wording.NOTED} (--html tells what): {', '.join(mended)}")


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
    tasks = map(_told, grade.tasks if unit else ())
    for block in filter(None, [*tasks, list(_noted(grade))]):
        for text in [Text(), *block]:
            console.print(text)


def _open(grade):
    """What was said of each task that was tried and is not right; what was noted."""
    done = (states.RIGHT, states.NOT_STARTED)
    tasks = grade.tasks if wording.has_points(grade) else ()
    yield from (_told(task) for task in tasks if task.outcome not in done)
    yield list(_noted(grade, f" in {wording.notebook(grade)}"))


def _told(task):
    """The lines on one task."""
    mark = wording.MARKS[task.outcome]
    head = Text(f"{mark} {task.id} {wording.MEANINGS[task.outcome]}", style="bold")
    head.stylize(_STYLES[task.outcome])
    head.append(f", {wording.amount(task)} points", style="not bold")
    said, hint = wording.sentence(task), wording.hint(task)
    texts = [said, f"Hint: {hint}" if hint else ""]
    return [head, *map(_Indented, filter(None, texts))]


def _noted(grade, where=""):
    """The lines on what was mended or left out."""
    if grade.repairs:
        yield Text(f"{wording.NOTED}{where}:")
    for repair in grade.repairs:
        yield _Indented(f"- {wording.line(repair, 300)}")


class _Indented:
    """A text that is wrapped a little to the right, without blanks at line ends."""

    def __init__(self, text, style=""):
        self.text = Text(text, style=style)

    def __rich_console__(self, console, options):
        for line in self.text.wrap(console, options.max_width - 2):
            line.rstrip()
            yield Text("  ").append_text(line)
