"""What is done and what is open: this stage first, then what comes next."""

import html
import os
import re
from pathlib import Path

from course_lib.display import colored, html_table
from course_lib.exercises import progress
from course_lib.exercises.catalog import exercises
from course_lib.exercises.exercise import Exercise
from course_lib.lessons.core_path import STAR, core_exercises, core_lessons
from course_lib.text import listed, many

_HEADS = ("", "exercise", "", "state", "minutes")


class Summary:
    """All exercises, done and open; `rows` are mark, id, title, state, minutes."""

    def __init__(self, tasks: list[Exercise], stage: str = ""):
        states = progress.states()
        latest = next(reversed(states), tasks[0].id).partition(".")[0]
        self.stage = stage or latest
        ordered = sorted(tasks, key=lambda task: _stage(task.id) != self.stage)
        self.rows = [_row(task, states.get(task.id, [])) for task in ordered]
        self.title = _done("exercise", self.rows)
        self.core = _core(tasks)
        self.note = _newer(progress.newer())

    @property
    def next(self) -> str:
        """Return the first open exercise: in this stage, else behind it, else any."""
        open_ids = [row[1] for row in self.rows if row[0] != "✓"]
        here = int(self.stage)
        behind = sorted(open_ids, key=lambda name: int(_stage(name)) < here)
        return next(iter(behind), "")

    def _parts(self):
        """Return the rows of this stage, and the others."""
        here = [row for row in self.rows if _stage(row[1]) == self.stage]
        return here, self.rows[len(here) :]

    def __repr__(self):
        rows = [
            f"{mark} {_starred(name)} {title} ({state})"
            for mark, name, title, state, _ in self.rows
        ]
        coming = f"Next: {self.next}" if self.next else "All done."
        parts = [self.title, *rows, self.core, coming, self.note]
        return "\n".join(filter(None, parts))

    def _repr_html_(self):
        here, others = self._parts()
        stage = _bar(here, f"Stage {self.stage.zfill(2)}")
        rest = f"{_bar(others, 'The other stages')}"
        folded = f"<details><summary>{rest}</summary>{_table(others)}</details>"
        coming = _link(self.next, self.rows) if self.next else "All done."
        note = f"<p>{html.escape(self.note)}</p>"
        core = f"<p>{html.escape(self.core)}</p>" if self.core else ""
        return f"<p>{stage}</p>{_table(here)}<p>{coming}</p>{folded}{core}{note}"


def summary() -> Summary:
    """Show what is right and what is open, this stage first; it survives a restart."""
    return Summary(list(exercises().values()), _stage_here())


def _stage_here():
    """Return the stage of the notebook in front, by its name; "" if it is unknown."""
    name = Path(os.environ.get("JPY_SESSION_NAME", "")).name
    number = re.match(r"(\d\d)[a-z]?_", name)
    return str(int(number[1])) if number else ""


def _stage(exercise):
    return exercise.partition(".")[0]


def _done(noun, rows):
    """`3 of 7 exercises right, about 45 minutes to go`."""
    done = sum(mark == "✓" for mark, *_ in rows)
    minutes = sum(row[-1] for row in rows if row[0] != "✓")
    left = f", about {minutes} minutes to go" if minutes else ""
    return f"{done} of {many(len(rows), noun)} right{left}"


def _bar(rows, name):
    """Draw a bar with its numbers in words, for readers of all kinds."""
    done = sum(mark == "✓" for mark, *_ in rows)
    bar = f'<progress max="{len(rows)}" value="{done}" aria-label="{name}"></progress>'
    return f"<b>{name}</b> {bar} {_done('exercise', rows)}"


def _table(rows):
    cells = ((colored(mark), _starred(name), *rest) for mark, name, *rest in rows)
    return html_table(_HEADS, list(cells))


def _starred(exercise):
    return f"{exercise} {STAR}" if exercise in core_exercises() else exercise


def _core(tasks):
    """Say what the core path is, if one of its exercises is among these."""
    minutes = [task.minutes for task in tasks if task.id in core_exercises()]
    if not minutes:
        return ""
    return (
        f"{STAR} The core path: lessons {listed(core_lessons())}, and the exercises"
        f" with {STAR}, {sum(minutes)} minutes of them here. In all it takes eight"
        " evenings of an hour."
    )


def _link(exercise, rows):
    """`Next: 4.3`, which leads to its heading."""
    title, minutes = next((r[2], r[4]) for r in rows if r[1] == exercise)
    text = f"{exercise} {title}"
    heading = f"{text} (about {minutes} minutes)".replace(" ", "-")
    folder = progress.path().parent
    names = sorted(folder.glob(f"{_stage(exercise).zfill(2)}_*.ipynb"))
    if not names:
        return f"Next: {html.escape(text)}"
    place = html.escape(f"{os.path.relpath(names[0])}#{heading}", quote=True)
    return f'Next: <a href="{place}">{html.escape(text)}</a>'


def _row(exercise, states):
    """Mark, id, title, state in words, minutes."""
    tries = [state for state in states if state in ("right", "not yet")]
    if "right" in tries:
        mark, state = "✓", "right"
        state += ", but not at the last check" if tries[-1] == "not yet" else ""
    elif tries:
        mark, state = "✗", f"not yet, {many(len(tries), 'check')}"
    else:
        mark, state = "○", "not started"
    hints = min(states.count("hint"), len(exercise.hints))
    state += f", {many(hints, 'hint')}" if hints else ""
    return mark, exercise.id, exercise.title, state, exercise.minutes


def _newer(count):
    """Say that there are rows that this version cannot read."""
    if not count:
        return ""
    rows = f"{many(count, 'row')} of {progress.path().name}"
    return f"{rows} came from a newer version of the course: left as they are."
