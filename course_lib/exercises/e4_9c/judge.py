"""Exercise 4.9c, decided: gradients that travel in buckets of a largest size.

It is watched as 4.9a is, and trains the network of 4.9b.
"""

import random
from collections.abc import Iterator

from course_lib.exercises.attempt import Failed
from course_lib.exercises.e4_9a.judge import alone, refuse_training
from course_lib.exercises.e4_9a.observe import observe as observe
from course_lib.exercises.e4_9b.judge import trained, training
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.text import listed, many

_TEXTS = Texts("4.9c")


def cases(seed: int) -> Iterator[Case]:
    """Yield a cap that the first bucket reaches, then one of larger buckets.

    The largest weight is larger than the first one, and fits into the second.
    """
    numbers = random.Random(seed)
    for ranks in (2, 3 + seed % 3):
        narrow, wide = numbers.randint(11, 16), numbers.randint(16, 28)
        cap = 40 * wide + 80 if ranks == 2 else 4 * wide * wide + 8 * wide
        given = training(seed, ranks, narrow=narrow, wide=wide)
        yield Case(given | {"more": (cap,)}, ranks, expected=alone(given))


def buckets(sizes: list[int], cap: int) -> list[int]:
    """Return the bytes of each bucket, filled in this order."""
    filled: list[int] = []
    for size in sizes:
        if filled and filled[-1] + size <= cap:
            filled[-1] += size
        else:
            filled.append(size)
    return filled


def judge(case: Case, seen) -> str:
    """Look at the start and all steps, then at the calls in each step."""
    refuse_training(_TEXTS, case, seen)
    [cap] = case.given["more"]
    expected = buckets(trained(case.given)[::-1], cap)
    right = {"right": listed(expected), "cap": f"{cap:,}"}
    for number in range(len(case.given["steps"])):
        sent = [one["steps"][number]["sent"] for one in seen]
        for rank, calls in enumerate(sent):
            fill = {"step": number + 1, "rank": rank, "ranks": len(seen)} | right
            sizes = [size for name, size in calls if name == "all_reduce"]
            if sizes != expected:
                clue = {"sizes": sizes}
                found = listed(sizes) if sizes else "no"
                raise _TEXTS.wrong("buckets", clue=clue, found=found, **fill)
            if others := [call for call in calls if call[0] != "all_reduce"]:
                found = listed(f"{name} of {size} bytes" for name, size in others)
                raise _TEXTS.wrong("more calls", found=found, **fill)
    return many(case.world_size, "rank")


def failed(case: Case, wrong: Failed) -> str:
    """Say which parameters have no gradient, if that is what a rank met."""
    if "NoneType" in wrong.error.what:
        wrong.hint = _TEXTS.hint("none")
    raise wrong
