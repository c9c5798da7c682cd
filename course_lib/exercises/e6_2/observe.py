"""Exercises 6.2 and 6.4, in a rank: a function asked for numbers, several times."""

import copy

from course_lib.exercises.values import plain


def observe(rank, world_size, answer, given):
    """Return what the answer gives for each row of arguments in `given["table"]`.

    The first argument is a dictionary; `changed` if it is another one afterwards.
    """
    return {"answers": [_asked(answer, *row) for row in given["table"]]}


def _asked(answer, steps, *others):
    own = copy.copy(steps)
    value = answer(own, *others)
    returned, changed = plain(value), plain(own) != steps
    return {"returned": returned, "type": type(value).__name__, "changed": changed}
