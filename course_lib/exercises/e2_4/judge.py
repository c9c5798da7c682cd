"""Exercise 2.4, decided: the largest micro-batch that a device holds."""

import math
import random
from collections.abc import Iterator

from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import size

_TEXTS = Texts("2.4")
_COUNT, _PASSES = 200, 40  # images, and forward passes that a search may take
# the micro-batch that shall just fit: more than half of the images, no power of 2; all
# images for the last
_WANTED = (142, 37, _COUNT)


def cases(seed: int) -> Iterator[Case]:
    """Yield devices of three sizes; the last holds all images.

    Halving finds the first with a try that fits and the second with one that fails:
    what a search leaves behind may depend on that.
    """
    numbers = random.Random(seed)
    large = [n for n in range(101, _COUNT) if _ends_with(n) == n]
    small = [n for n in range(34, 64) if _ends_with(n) != n]
    wanted = (numbers.choice(large), numbers.choice(small), _COUNT)
    images, labels = baseline.samples(_COUNT)
    given = {"model": _network(seed), "images": images, "labels": labels}
    for count in wanted if seed else _WANTED:
        yield Case(given | {"wanted": count})


def _ends_with(wanted):
    """The last size that a search tries which halves what lies between."""
    low, high = 0, _COUNT + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle <= wanted else (low, middle)
    return middle


def _network(seed):
    """A network whose gradients need as much memory as four images do."""
    with baseline.seeded(seed):
        # backward comes last to the large first layer, long after the peak
        layers = [nn.Flatten(), nn.Linear(64, 256), nn.ReLU()]
        layers.append(nn.Unflatten(1, (4, 8, 8)))
        for channels in (4, 16):
            layers += [nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(64, 10))


def judge(case: Case, seen) -> str:
    """Compare with a bisection, look at what was tried and at what is left."""
    [rank] = seen
    number, expected = rank["returned"], rank["baseline"]["largest"]
    memory = size(rank["baseline"]["memory"])
    fill = {"memory": memory, "left": size(rank["left"]), "images": _COUNT}
    fill |= {"returned": shown(number), "expected": expected}
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if type(number) is not int:
        clue = {"type": type(number).__name__}
        raise _TEXTS.wrong("no whole number", clue=clue, **fill)
    if rank["moved"]:
        raise _TEXTS.wrong("moved", **fill)
    passes = len(rank["tried"])
    if number != expected:
        why = _why(number, expected, rank["tried"])
        clue = {"off": number - expected, "why": why}
        also = {"passes": passes}
        raise _TEXTS.wrong("other number", why=why, clue=clue, also=also, **fill)
    facts = (
        ("untried", [passes], 2, 2, math.inf),
        ("too many tries", [passes], _PASSES, 0, _PASSES),
        ("gradients", [rank["grads"]], 0, 0, 0),
        ("left", [rank["left"]], 0, -math.inf, 0),
    )
    _TEXTS.refuse(facts, **fill)
    return str(number)


def _why(number, expected, tried):
    """The name of the hint for another number, by what was tried."""
    if number > expected:
        return "half a try"
    larger = any(number < count <= expected for count in tried)
    return "memory taken" if larger else "stopped early"
