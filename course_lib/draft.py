"""The cells of a new exercise, with their ids and metadata, to be filled in."""

import argparse
import re
import sys
from pathlib import Path

from course_lib import release

_NUMBER = re.compile(r"\d+\.\d+[a-z]?")
_TEXT = """## {exercise} A statement as the title (about {minutes} minutes)

The task in 25 to 45 words: what the function gets and returns, a number to reach."""
_ANSWER = """def answer():
    ### BEGIN SOLUTION
    raise ValueError("write the solution of {exercise} here")
    ### END SOLUTION"""
_WHY = "Why the solution is right, and another way to write it."
_MINUTES, _SECONDS, _POINTS = 10, 60, 2
_ROLES = {"grade": False, "solution": False, "locked": False, "task": False}


def add(notebook, exercise: str) -> None:
    """Put text, answer, check and explanation of `exercise` behind the last one.

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
    last = max(n for n, one in enumerate(ids) if one.startswith(("check-", "why-")))
    notebook.cells[last + 1 : last + 1] = _cells(exercise, name)


def _cells(exercise, name):
    from nbformat import v4

    words = {"exercise": exercise, "minutes": _MINUTES}
    text = v4.new_markdown_cell(_TEXT.format(**words), id=f"text-{name}")
    answer = v4.new_code_cell(_ANSWER.format(**words), id=f"answer-{name}")
    answer.metadata["nbgrader"] = _nbgrader(answer.id, solution=True)
    check = v4.new_code_cell(f'cl.check("{exercise}", answer)', id=f"check-{name}")
    check.metadata.update(
        course={"minutes": _MINUTES, "timeout": _SECONDS},
        deletable=False,
        editable=False,
        nbgrader=_nbgrader(check.id, grade=True, locked=True, points=_POINTS),
    )
    why = v4.new_markdown_cell(_WHY, id=f"why-{name}")
    why.metadata["tags"] = ["solution-only"]
    return [text, answer, check, why]


def _nbgrader(name, **roles):
    return {"schema_version": 3, "grade_id": name, **_ROLES, **roles}


def main(args: list[str]) -> int:
    """Add the cells of one exercise to a solution; exit status 1 if it cannot be."""
    parser = argparse.ArgumentParser("python -m course_lib draft", description=__doc__)
    parser.add_argument("exercise", help="its number, as in 4.6")
    parser.add_argument("solution", type=Path, help="the notebook in solutions/")
    arguments = parser.parse_args(args)
    import nbformat

    try:
        notebook = release.read(arguments.solution)
        add(notebook, arguments.exercise)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    nbformat.write(notebook, arguments.solution)
    print(f"{arguments.solution}: the cells of {arguments.exercise} were added")
    return 0
