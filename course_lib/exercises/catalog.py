"""Which exercises there are: two modules each, found by their names."""

import importlib

from course_lib.errors import UsageError
from course_lib.exercises import judge, observe
from course_lib.exercises.exercise import Exercise


def exercises() -> dict[str, Exercise]:
    """All exercises by id, in order."""
    return {task.id: task for task in map(_assembled, judge.names(), observe.names())}


def _assembled(judging, observing):
    """The exercise of two modules, by their names."""
    decides, runs = map(importlib.import_module, (judging, observing))
    number = judging.rpartition(".e")[-1].replace("_", ".")
    options = {name: getattr(decides, name, None) for name in ("draw", "failed")}
    return Exercise(number, runs.observe, decides.cases, decides.judge, **options)


def find(exercise: str) -> Exercise:
    """The exercise of an id.

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
