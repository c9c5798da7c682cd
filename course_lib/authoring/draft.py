"""The cells and the folder of a new exercise, to be filled in."""

import argparse
import keyword
import re
import string
import sys
from pathlib import Path
from typing import Any

from course_lib.authoring import lint, release
from course_lib.exercises import folders
from course_lib.workspace.cell import role_named

_PACKAGE = "course_lib/exercises"
_TEMPLATES = Path(__file__).parent / "templates"
_NUMBER = re.compile(r"\d+\.\d+[a-z]?")
_TEXT = """## {exercise} A statement as the title (about {minutes} minutes)

The task in about 50 words: what the function gets and returns, a number to reach."""
_ANSWER = """def {function}():
    ### BEGIN SOLUTION
    raise ValueError("write the solution of {exercise} here")
    ### END SOLUTION"""
_WHY = "Why the solution is right, and another way to write it."


_NUMBERS = {  # options: usual value, what it says
    "points": (2, "what a right answer gives"),
    "minutes": (10, "how long the learner needs"),
    "seconds": (60, "how long the check may run"),
}


def add(notebook, exercise: str, plan: argparse.Namespace) -> None:
    """Put text, answer, check and explanation of `exercise` behind the last one.

    The plan has the name of the function, points, minutes and seconds.

    Errors: `ValueError` for a number such as 4,6, one that is there already, and one of
    another stage than the notebook's.
    """
    if not _NUMBER.fullmatch(exercise):
        raise ValueError(f"found {exercise!r}; the number of an exercise is as in 4.6")
    stage = notebook.metadata.get("course", {}).get("stage", "")
    if stage.lstrip("0") != exercise.partition(".")[0]:
        raise ValueError(f"{exercise} is not of stage {stage}, which this notebook has")
    name = exercise.replace(".", "-")
    ids = [cell.id for cell in notebook.cells]
    if f"answer-{name}" in ids:
        raise ValueError(f"{exercise} is there already")
    # the first of a stage follows its set-up
    before = ("setup", "check-", "why-")
    last = max((n for n, id_ in enumerate(ids) if id_.startswith(before)), default=-1)
    notebook.cells[last + 1 : last + 1] = _cells(exercise, name, plan)


def _cells(exercise, name, plan):
    from nbformat import v4

    words = {"exercise": exercise, "function": plan.function, "minutes": plan.minutes}
    text = v4.new_markdown_cell(_TEXT.format(**words), id=f"text-{name}")
    answer = v4.new_code_cell(_ANSWER.format(**words), id=f"answer-{name}")
    answer.metadata["nbgrader"] = _nbgrader(answer)
    call = f'cl.check("{exercise}", {plan.function})'
    check = v4.new_code_cell(call, id=f"check-{name}")
    check.metadata.update(
        course={"minutes": plan.minutes, "timeout": plan.seconds},
        deletable=False,
        editable=False,
        nbgrader=_nbgrader(check, points=plan.points),
    )
    why = v4.new_markdown_cell(_WHY, id=f"why-{name}")
    why.metadata["tags"] = ["solution-only"]
    return [text, answer, check, why]


def _nbgrader(cell, **points):
    roles = lint.ROLES[role_named(cell.id)]
    return {"schema_version": 3, "grade_id": cell.id, **roles, **points}


def main(args: list[str]) -> int:
    """Add one exercise: its cells to a solution, its folder; exit status 1 if not."""
    given = _arguments(args)
    import nbformat

    exercise, solution = given.exercise, given.solution
    try:
        notebook = release.read_solution(solution)
        add(notebook, exercise, given)
        nbformat.write(notebook, solution)
        _write_folder(given)
    except OSError as error:
        print(_unreadable(solution, error), file=sys.stderr)
        return 1
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(_text("next.txt", given), end="")
    return 0


def _text(name, given):
    """The template of that name, filled in."""
    words = vars(given) | {
        "name": folders.folder_name(given.exercise),
        "package": _PACKAGE,
        "start": given.solution.name.partition("_")[0],
    }
    text = (_TEMPLATES / f"{name}.in").read_text(encoding="utf-8")
    return string.Template(text).substitute(words)


def _write_folder(given):
    """The folder of the exercise: its two modules, and all that the learner reads."""
    root = given.solution.absolute().parent.parent
    folder = root / _PACKAGE / folders.folder_name(given.exercise)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").touch()  # without it, no tool sees the modules
    for name in ("observe.py", "judge.py", "texts.ini"):
        (folder / name).write_text(_text(name, given), encoding="utf-8")


def _arguments(args):
    parser = argparse.ArgumentParser("python -m course_lib draft", description=__doc__)
    parser.add_argument("exercise", help="its number, as in 4.6")
    parser.add_argument("solution", type=Path, help="the notebook in solutions/")
    about = "the function that the learner writes (default: answer)"
    how: dict[str, Any] = {"type": _function, "metavar": "NAME", "default": "answer"}
    parser.add_argument("--function", help=about, **how)
    for name, (usual, about) in _NUMBERS.items():
        how = {"type": _number, "metavar": "N", "default": usual}
        parser.add_argument(f"--{name}", help=f"{about} (default: {usual})", **how)
    return parser.parse_args(args)


def _function(text):
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a function")
    return text


def _number(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _unreadable(path, error):
    """Why a solution cannot be read or written, and which ones there are."""
    if not isinstance(error, FileNotFoundError):
        return f"{path} cannot be read or written: {error.strerror}"
    there = sorted(map(str, Path("solutions").glob("*.ipynb")))
    known = f"there are {', '.join(there)}" if there else "run this in the course"
    return f"there is no notebook {path}; {known}"
