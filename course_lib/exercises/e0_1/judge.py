"""Exercise 0.1, decided: ranks in a circle, and the neighbour to the right."""

import random
from collections.abc import Iterator

from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import many

_TEXTS = Texts("0.1")
_SIZES = (4, 3, 1)


def cases(seed: int) -> Iterator[Case]:
    """Yield a launch for each world size; one rank alone is its own neighbour."""
    sizes = random.Random(seed).sample(range(3, 7), 2) + [1] if seed else _SIZES
    for size in sizes:
        expected = [(rank + 1) % size for rank in range(size)]
        yield Case({}, world_size=size, expected=expected)


def judge(case: Case, seen) -> str:
    """Compare what every rank returned."""
    neighbours = list(map(_whole, seen))
    if neighbours == case.expected:
        return many(case.world_size, "rank")
    pairs = enumerate(zip(neighbours, case.expected))
    rank = next(number for number, (one, other) in pairs if one != other)
    raise _TEXTS.wrong(
        "another neighbour",
        why=_why(neighbours, case.expected),
        clue=list(map(str, neighbours)),
        **{"rank": rank, "ranks": case.world_size, "last": case.world_size - 1},
        returned=shown(seen[rank]),
        expected=case.expected[rank],
    )


def _whole(value):
    """A returned value; a float, a truth value or a tensor is no number of a rank."""
    return value if type(value) is int else shown(value)


def _why(neighbours, expected):
    """The name of a hint: the first fact that differs."""
    if not all(isinstance(one, int) for one in neighbours):
        return "no number"
    if neighbours[:-1] == expected[:-1]:
        return "last"
    return "circle"
