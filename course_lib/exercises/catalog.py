"""Which exercises there are: a folder each, found by its name."""

import importlib

from course_lib.errors import CourseError, UsageError
from course_lib.exercises import folders
from course_lib.exercises.exercise import Exercise


def exercises() -> dict[str, Exercise]:
    """Return all exercises by id, in order.

    Errors: `CourseError` that names the part that an exercise lacks.
    """
    paths = folders.by_exercise().items()
    return {number: _assembled(number, path) for number, path in paths}


def _assembled(number, folder):
    """The exercise of a number, of what its folder has."""
    for part in ("judge.py", "texts.ini"):
        if not (folder / part).exists():
            raise _lacks(number, part, folder)
    judge = importlib.import_module(folders.module_name(number, "judge"))
    if (folder / "observe.py").exists():
        runs = importlib.import_module(folders.module_name(number, "observe"))
    elif hasattr(judge, "observe"):
        runs = judge
    else:
        raise _lacks(number, "observe.py", folder)
    options = {name: getattr(judge, name, None) for name in ("draw", "failed")}
    return Exercise(number, runs.observe, judge.cases, judge.judge, **options)


def _lacks(number, part, folder):
    return CourseError(
        f"exercise {number} has no {part} in course_lib/exercises/{folder.name}/"
    )


def find_exercise(exercise: str) -> Exercise:
    """Return the exercise of an id.

    Errors: `UsageError` that lists those there are.
    """
    exercises_by_id = exercises()
    if not isinstance(exercise, str):
        raise UsageError(
            f'write the exercise in quotes, as in cl.check("4.1", answer);'
            f" found {exercise!r:.60}"
        )
    if exercise in exercises_by_id:
        return exercises_by_id[exercise]
    wrong = f"there is no exercise {exercise!r:.20}" if exercise else "name an exercise"
    raise UsageError(f"{wrong}: {', '.join(exercises_by_id)}")
