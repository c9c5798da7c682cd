"""Exercise 4.9b, decided: what is right of an answer."""

from collections.abc import Iterator

from course_lib.exercises.e4_9a.observe import observe  # noqa: F401
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown

_TEXTS = Texts("4.9b")


def cases(seed: int) -> Iterator[Case]:
    """What ranks are given; seed 0 is the learner's, another draws other numbers."""
    for world_size in (2, 3 + seed % 3):
        yield Case({}, world_size, expected=world_size)


def judge(case: Case, seen) -> str:
    """Compare what each rank returned; the proof in words, or `Wrong`."""
    for rank, one in enumerate(seen):
        returned = one["returned"]
        if type(returned) is not int or returned != case.expected:
            fill = {"returned": shown(returned), "expected": case.expected}
            where = {"rank": rank, "ranks": case.world_size}
            clue = {"returned": returned}
            raise _TEXTS.wrong("other value", clue=clue, **where, **fill)
    return f"{case.world_size} ranks"
