"""Which exercises there are: two modules each, found by their names."""

import importlib

from course_lib.errors import CourseError, UsageError
from course_lib.exercises import judge, observe
from course_lib.exercises.exercise import Exercise


def exercises() -> dict[str, Exercise]:
    """Return all exercises by id, in order.

    Errors: `CourseError` that names the part that an exercise lacks.
    """
    judging, observing = (_by_number(part.names()) for part in (judge, observe))
    for part, numbers in (("judge", judging), ("observe", observing)):
        for number in (judging | observing).keys() - numbers.keys():
            raise CourseError(f"exercise {number} has no module in exercises/{part}/")
    return {number: _assembled(number, judging, observing) for number in judging}


def _by_number(modules):
    """Names of modules by the id of their exercise."""
    return {name.rpartition(".e")[-1].replace("_", "."): name for name in modules}


def _assembled(number, judging, observing):
    """The exercise of a number, of its two modules."""
    decides = importlib.import_module(judging[number])
    runs = importlib.import_module(observing[number])
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
