"""Exercise 2.4, decided: the largest micro-batch that a device holds."""

import random
from collections.abc import Iterator

from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e2_4 import observe
from course_lib.exercises.values import shown
from course_lib.text import size

_COUNT, _PASSES = 200, 40  # images, and forward passes that a search may take
# the micro-batch that shall just fit: more than half of the images, no power of 2; all
# images for the last
_WANTED = (142, 37, _COUNT)


def cases(seed: int) -> Iterator[Case]:
    """Devices of three sizes; the last holds all images.

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
        layers = [
            nn.Flatten(),
            nn.Linear(64, 256),
            nn.ReLU(),
            nn.Unflatten(1, (4, 8, 8)),
        ]
        layers += [nn.Conv2d(4, 16, 3, padding=1), nn.ReLU()]
        layers += [nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()]
        layers += [nn.AvgPool2d(4), nn.Flatten(), nn.Linear(64, 10)]
        return nn.Sequential(*layers)


def judge(case: Case, seen) -> str:
    """Compare with a bisection, look at what was tried and at what is left."""
    [rank] = seen
    found, expected, tried = (
        rank["returned"],
        rank["baseline"]["largest"],
        rank["tried"],
    )
    where = f"on a device of {size(rank['baseline']['memory'])}"
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if type(found) is not int:
        raise Wrong(
            f"{where} the answer is {shown(found)}, expected a whole number",
            "Return the number of images of the largest micro-batch that fits.",
            clue={"type": type(found).__name__},
        )
    if found != expected:
        state = "do not fit" if found > expected else "fit, and more than these"
        more = f" (there are only {_COUNT})" if found > _COUNT else ""
        raise Wrong(
            f"{where} {found} images {state}{more}, expected {expected}",
            _why(found, rank),
            clue=None if rank["elsewhere"] else {"off": found - expected},
            also={"passes": len(tried)},
        )
    right = f"{found} is right"
    _refuse_untried(right, tried)
    if len(tried) > _PASSES:
        raise Wrong(
            f"{right}, but it took {len(tried)} forward passes to find it, expected at"
            f" most {_PASSES}",
            "Double the size until it does not fit, then halve the interval between"
            " what fits and what does not: 8 steps for 256 sizes.",
        )
    _refuse_left(right, rank)
    return str(found)


def _refuse_untried(right, tried):
    if len(tried) < 2:
        raise Wrong(
            f"{right}, but {len(tried)} forward passes started on the device, expected"
            " at least 2",
            "The number is to be found by trying: micro-batches, forward and backward,"
            " on the device of the model.",
        )


def _why(found, rank):
    """The hint for another number, by what was tried."""
    expected, tried = rank["baseline"]["largest"], set(rank["tried"])
    if rank["elsewhere"]:
        return (
            "Tries ran on another device, which has other memory. Use the model's own."
        )
    if rank["moved"]:
        return "A try must not train: steps change the weights, and Adam needs memory."
    if found > expected:
        return (
            "A try is forward and backward, twice, with gradients kept in between: each"
            " of these takes memory. Does each try do that, on the device?"
        )
    if tried.isdisjoint(range(found + 1, expected + 1)):
        failed = min((n for n in tried if n > expected), default=_COUNT)
        return (
            f"No size between {found} and {failed} was tried. Halve the interval until"
            " its ends are neighbours."
        )
    return (
        "Sizes failed that do fit, so something else took up memory: images that are"
        " moved ahead, an error, an output or a copy of the model that is kept. Leave"
        " the `except` block before the next try: inside it, the failed one is still"
        " held."
    )


def _refuse_left(right, rank):
    if rank["moved"]:
        raise Wrong(
            f"{right}, but the weights of the model have changed",
            "A try must not train: no optimizer step.",
        )
    if rank["grads"]:
        raise Wrong(
            f"{right}, but the gradients of a try are still in the model",
            "The next training would start with them. Call model.zero_grad() after"
            " each try, also after one that failed.",
        )
    if rank["left"] > 0:
        raise Wrong(
            f"{right}, but {size(rank['left'])} more than before are allocated",
            "Something of a try is still alive: a tensor on the device in a global"
            " name or in the model.",
        )


EXERCISE = Exercise(
    "2.4",
    observe,
    cases,
    judge,
    proof="{} on three devices, each tried and nothing left behind",
)
