"""Exercise 4.9b, decided: frozen and shared parameters, and gradients that are missing.

It is watched as 4.9a is; 4.9c trains the same network.
"""

import functools
import random
from collections.abc import Iterator

import torch

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Failed
from course_lib.exercises.e4_9a.judge import alone, batches, refuse_training
from course_lib.exercises.e4_9a.observe import observe as observe
from course_lib.exercises.e4_9b.network import TASKS, network
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.text import many

_TEXTS = Texts("4.9b")
_NOTE = 16  # bytes: of a parameter, whether it has a gradient
# what moves no weight whose gradient is 0
_SGD = functools.partial(torch.optim.SGD, lr=baseline.RATE)


def cases(seed: int) -> Iterator[Case]:
    """Yield two ranks, then more of them and a network of another size."""
    numbers = random.Random(seed)
    for ranks in (2, 3 + seed % 3):
        narrow, wide = numbers.randint(10, 20), numbers.randint(16, 28)
        given = training(seed, ranks, narrow=narrow, wide=wide)
        yield Case(given, ranks, expected=alone(given))


def training(seed: int, ranks: int, *, narrow: int, wide: int) -> dict:
    """Return what ranks are given: in each step they train other tasks."""
    size = random.Random(seed).randint(5, 9)
    one, other, last = random.Random(seed).sample(range(TASKS), TASKS)
    tasks: list[list[int | None]] = [
        [one] * ranks,  # no rank has a gradient of the others
        [*[one] * (ranks - 1), other],
        [(other, last)[rank % 2] for rank in range(ranks)],
        [last] * ranks,
        [None] * ranks,  # all have all gradients
    ]
    steps = [
        [(images[r::ranks], task, labels[r::ranks]) for r, task in enumerate(own)]
        for own, (images, labels) in zip(tasks, batches(seed, len(tasks), ranks * size))
    ]
    make = functools.partial(network, narrow=narrow, wide=wide)
    given = {"make": make, "seed": 17 + 10 * seed, "more": (), "steps": steps}
    return given | {"optimizer": _SGD, "early": ranks > 2}


def trained(given: dict) -> list[int]:
    """Return the bytes of each parameter that takes a gradient, in order."""
    return [p.nbytes for p in given["make"](0).parameters() if p.requires_grad]


def judge(case: Case, seen) -> str:
    """Look at the start and all steps, then at what travelled in them."""
    refuse_training(_TEXTS, case, seen)
    sizes = trained(case.given)
    right = sum(sizes)
    most = right + _NOTE * len(case.expected[1][0][1])  # of all weights
    for number in range(len(case.given["steps"])):
        sent = [sum(size for _, size in one["steps"][number]["sent"]) for one in seen]
        _TEXTS.refuse([("more sent", sent, right, 0, most)], step=number + 1)
    return many(case.world_size, "rank")


def failed(case: Case, wrong: Failed) -> str:
    """Say which parameters have no gradient, if that is what a rank met."""
    if "NoneType" in wrong.error.what:
        wrong.hint = _TEXTS.hint("none")
    raise wrong
