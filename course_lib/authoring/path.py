"""The path through the course: links in lessons and exercises, made for all alike.

In each lesson the cell `map` says how long it takes, what it needs and where on the way
it is, and the cell `next` leads on. Exercises end with a cell `next`, too; of a stage
with several lessons their title's last paragraph says which belong to which. Title and
order come from the files; words for the map, minutes and needs from the metadata
`course` of each lesson.
"""

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from course_lib.exercises.catalog import exercises as catalog
from course_lib.lessons.core_path import exercises_of
from course_lib.text import listed

_COMMAND = "python -m course_lib path"
_KEYS = ("short", "minutes", "needs")  # of a lesson's metadata
_AFTER = "After [lesson "
# a kernel and its server of ranks had 0.7 to 0.95 GB, and stay when a tab is closed
_SHUT_DOWN = "*Kernel › Shut Down Kernel* frees most of a gigabyte."


@dataclass(frozen=True)
class Lesson:
    """A lesson as the map shows it: `06b`, file name, its few words, title, needs."""

    number: str
    file: str
    short: str
    title: str
    minutes: int
    needs: str


def lesson(path: Path, notebook) -> Lesson:
    """Return what a lesson's file says of it.

    Errors: `ValueError` if the metadata `course` lacks an entry.
    """
    course = notebook.metadata.get("course", {})
    missing = [key for key in _KEYS if key not in course]
    if missing:
        raise ValueError(f"{path}: its metadata `course` lacks {', '.join(missing)}")
    title = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
    number = path.name.partition("_")[0]
    return Lesson(number, path.name, title=title, **{k: course[k] for k in _KEYS})


def opening(lessons: list[Lesson], here: Lesson, exercises: str) -> str:
    """Return the text of the cell `map` of a lesson."""
    way = (_place(one, one == here) for one in lessons)
    links = [f"[exercises](../exercises/{exercises})"] if exercises else []
    at = lessons.index(here)
    if at:
        links.insert(0, f"[← {lessons[at - 1].number}]({lessons[at - 1].file})")
    if at + 1 < len(lessons):
        links.append(f"[{lessons[at + 1].number} →]({lessons[at + 1].file})")
    head = f"**About {here.minutes} minutes. Needs {here.needs}.** {' · '.join(links)}"
    return f"{head}\n\nYou are here: {' › '.join(way)}"


def _place(lesson, here):
    text = f"{lesson.number} {lesson.short}"
    return f"**{text}**" if here else text


def ending(lessons: list[Lesson], here: Lesson, exercises: str) -> str:
    """Return the text of the cell `next` of a lesson."""
    at = lessons.index(here)
    following = lessons[at + 1] if at + 1 < len(lessons) else None
    own = _exercises(here)
    parts = []
    if exercises and own:
        name = f"exercise{'s' * (len(own) > 1)} {listed(own)}"
        parts.append(f"Now write it yourself: [{name}](../exercises/{exercises}).")
    elif exercises:
        parts.append("This lesson has no exercise of its own.")
    if following:
        link = f"[{following.number} {following.title}]({following.file})"
        parts.append(f"Next: {link}.")
    parts.append(_SHUT_DOWN)
    return "\n\n".join(parts)


def before_exercises(lessons: list[Lesson], number: str) -> str:
    """Return which exercises of a stage belong to which lesson, nothing if to one."""
    own = [one for one in lessons if one.number[:2] == number and _exercises(one)]
    parts = (
        f"{_AFTER}{one.number}](../notebooks/{one.file}): {listed(_exercises(one))}."
        for one in own
    )
    return " ".join(parts) if len(own) > 1 else ""


def _exercises(lesson):
    """The ids of the exercises that belong to a lesson."""
    return [task.id for task in exercises_of(lesson.number, [*catalog().values()])]


def after_exercises(lessons: list[Lesson], number: str) -> str:
    """Return the text of the cell `next` of the exercises of a stage."""
    own = [one for one in lessons if one.number[:2] == number]
    behind = [one for one in lessons if one.number[:2] > number]
    links = [f"[lesson {one.number}](../notebooks/{one.file})" for one in own]
    text = (
        f"What is done, and what is next: `cl.summary()`. Back to {' or '.join(links)}"
    )
    if behind:
        link = f"[{behind[0].number} {behind[0].title}](../notebooks/{behind[0].file})"
        text += f"; on to {link}"
    return f"{text}.\n\n{_SHUT_DOWN}"


def put(notebook, name: str, text: str, *, at: int) -> None:
    """Give the text cell with this id its text; a new one comes at this place."""
    from nbformat.v4 import new_markdown_cell

    cells = [cell for cell in notebook.cells if cell.id == name]
    if not cells:
        cell = new_markdown_cell(id=name)
        notebook.cells.insert(at, cell)
        cells = [cell]
    cells[0].source = text


def complete(root: Path) -> dict[Path, object]:
    """Return each lesson and solution below `root`, with its cells of the path.

    Errors: `ValueError` as for `lesson`; `OSError`.
    """
    import nbformat

    def read(folder):
        paths = sorted((root / folder).glob("[0-9]*.ipynb"))
        return {path: nbformat.read(path, as_version=4) for path in paths}

    notebooks, solutions = read("notebooks"), read("solutions")
    lessons = [lesson(*item) for item in notebooks.items()]
    files = {path.name[:2]: path.name for path in solutions}
    for here, notebook in zip(lessons, notebooks.values(), strict=True):
        exercises = files.get(here.number[:2], "")
        put(notebook, "map", opening(lessons, here, exercises), at=1)
        end = len(notebook.cells)
        put(notebook, "next", ending(lessons, here, exercises), at=end)
    for path, notebook in solutions.items():
        title = notebook.cells[0]
        about = title.source.partition(f"\n\n{_AFTER}")[0]
        belong = before_exercises(lessons, path.name[:2])
        title.source = f"{about}\n\n{belong}".rstrip()
        text = after_exercises(lessons, path.name[:2])
        put(notebook, "next", text, at=len(notebook.cells))
    return {**notebooks, **solutions}


def main(args: list[str]) -> int:
    """Write the cells of the path; exit status 1 if a notebook lacks what they need."""
    import nbformat

    argparse.ArgumentParser(_COMMAND, description=__doc__).parse_args(args)
    try:
        notebooks = complete(Path())
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    for path, notebook in notebooks.items():
        text = nbformat.writes(notebook) + "\n"
        changed = re.sub(r"\s+$", "", path.read_text("utf-8")) != text.rstrip()
        if changed:
            path.write_text(text, encoding="utf-8")
        print(f"{path}: {'written' if changed else 'as it was'}")
    return 0
