"""Exercise 4.9e, decided: a DDP by hand that is quiet within no_sync."""

import random
from collections.abc import Iterator

from course_lib.exercises.e4_9d.judge import (
    WIDTHS,
    case_of,
    large,
    refuse_start,
    refuse_step,
)
from course_lib.exercises.e4_9d.observe import observe
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.text import many

__all__ = ["cases", "judge", "observe"]
_TEXTS = Texts("4.9e")


def cases(seed: int) -> Iterator[Case]:
    """Yield steps of one and of several micro-batches, one after something is raised.

    In the second training a branch is taken by some ranks alone, within no_sync.
    """
    numbers = random.Random(seed)
    first, second = numbers.sample((2, 3, 4), 2) if seed else (2, 3)
    widths = numbers.sample(WIDTHS, 2) if seed else WIDTHS
    everyone, most = [True] * first, numbers.randint(3, 4)
    steps = [[everyone], [everyone] * most, [None, everyone], [everyone] * 2]
    yield case_of(numbers, steps, width=widths[0])
    some = numbers.sample([True, False, *[True] * (second - 2)], second)
    nobody, others = [False] * second, [not one for one in some]
    steps = [[some, nobody], [[True] * second], [nobody, some, others], [some, others]]
    yield case_of(numbers, steps, width=widths[1])


def judge(case: Case, seen) -> str:
    """Look at each step: nothing travels within no_sync, then what 4.9d asks for."""
    refuse_start(case, seen)
    for number, given in enumerate(case.given["steps"]):
        steps = [one["steps"][number] for one in seen]
        for rank, step in enumerate(steps):
            where = {"rank": rank, "ranks": case.world_size, "step": number + 1}
            _refuse_noise(given, step, where)
        refuse_step(case, steps, number)
    counts = [len(step["batches"]) for step in case.given["steps"]]
    told = f"{many(sum(counts), 'micro-batch')} in {many(len(counts), 'step')}"
    return f"{told} on {case.world_size} ranks"


def _refuse_noise(given, step, where):
    """Refuse what travels within no_sync, and silence after it."""
    if step["swallowed"]:
        raise _TEXTS.wrong("swallowed", **where)
    last = step["passes"][len(step["passes"]) - 1]
    before, after = (last["calls"][:1] or [0])[0], (last["calls"][-1:] or [0])[0]
    calls, quiet = step["sent"][:before], len(step["passes"]) - 1
    if calls:
        clue = {"step": where["step"], "sizes": large(calls)}
        fill = {"found": many(len(calls), "call"), "bytes": sum(n for _, n in calls)}
        told = many(quiet, "micro-batch")
        raise _TEXTS.wrong("heard", clue=clue, quiet=told, **fill, **where)
    if quiet and not large(step["sent"][before:after]):
        why = "after trouble" if given["trouble"] else "after the block"
        raise _TEXTS.wrong("silent", why=why, **where)
