"""What the runs of exercise 4.10 are given, and what they give when they are well."""

import math
import random
from collections.abc import Iterator
from itertools import pairwise

from course_lib.exercises import baseline
from course_lib.exercises.e4_10 import reference
from course_lib.exercises.exercise import Case

_RANKS = (2, 3)
_STEPS = 20  # at most, of run D
_LEAST = 2e-3  # by which a mean loss is on one side of `enough`
_LONGEST = 0.4  # norm; gradients of the first steps are longer


def cases(seed: int) -> Iterator[Case]:
    """Yield each run on two numbers of ranks; `given["arguments"]` is what it gets."""
    numbers = random.Random(seed)
    for run, make in _MAKE.items():
        for ranks in numbers.sample((2, 3, 4, 5), 2) if seed else _RANKS:
            given, expected = make(ranks, seed, numbers)
            yield Case({"run": run, "others": []} | given, ranks, expected=expected)


def _batches(count, size, seed):
    """Batches of digits, others for each seed."""
    skipped = seed * 37 % 600
    images, labels = (
        part[skipped:] for part in baseline.samples(skipped + count * size)
    )
    return list(zip(images.split(size), labels.split(size)))


def _layer(ranks, seed, numbers):
    batches = _batches(4, ranks * 11, seed)
    weights = baseline.weights_after(batches, start=baseline.network().state_dict())
    given = {"arguments": (batches,), "parts": ("weights",)}
    return given, {"weights": weights}


def _dropout(ranks, seed, numbers):
    batches = _batches(3, ranks * 7, seed)
    # by seed 0, of which a product with the rank is the same on all ranks
    given = {"arguments": (batches, 0), "parts": ("masks", "weights")}
    # once more by the same seed, then by another
    others = [(batches, 0), (batches, 1)]
    return given | {"others": others}, {"batches": batches}


def _clipping(ranks, seed, numbers):
    parts = numbers.choice((3, 4, 5)) if seed else ranks + 1
    batches = _batches(4, ranks * parts * 3, seed)
    given = {"arguments": (batches, parts, _LONGEST), "parts": ("weights",)}
    weights = reference.clipped(batches, _LONGEST)
    return given, {"weights": weights, "free": reference.clipped(batches, math.inf)}


def _stop(ranks, seed, numbers):
    """The first digits and bound with which each wrong way to decide is another one."""
    for other in range(seed, seed + 20):
        batches = _batches(_STEPS, ranks * 8, other)
        steps = list(reference.losses(batches, ranks))
        for enough in _bounds([sum(each) / ranks for each, _ in steps]):
            ends = _ends([each for each, _ in steps], ranks, enough)
            right = ends["mean"]
            others = [end for end in ends.values() if end != right]
            # and none is one step beside it, where mistakes of another kind end
            apart = all(abs(end - right) > 1 for end in others)
            if right > 2 and apart and len({*others}) == len(ends) - 1:
                given = {"arguments": (batches, enough), "parts": ("steps", "weights")}
                weights = steps[right - 1][1]
                return given, {"steps": right, "weights": weights, "others": ends}
    raise AssertionError("no bound tells the ways to decide apart")


def _bounds(means):
    """Numbers between two mean losses, far enough from both."""
    ordered = sorted(means)
    for low, high in pairwise(ordered):
        if high - low > 2 * _LEAST:
            yield (low + high) / 2


def _ends(losses, ranks, enough):
    """After how many steps a run ends, by the number that is compared with `enough`."""
    ways = {"mean": lambda each: sum(each) / ranks, "first": lambda each: each[0]}
    ways |= {"least": min, "largest": max, "never": lambda each: math.inf}
    return {name: _first(map(way, losses), enough) for name, way in ways.items()}


def _first(numbers, enough):
    below = (step for step, loss in enumerate(numbers, start=1) if loss < enough)
    return next(below, _STEPS)


def _script(ranks, seed, numbers):
    batch = 12 * ranks
    constants = {"BATCH": batch, "TRAIN": 10 * batch, "EPOCHS": 3}
    # no number of ranks divides it
    constants["TEST"] = ranks * (20 + seed % 5) + numbers.randint(1, ranks - 1)
    script = reference.Script(constants)
    expected = {"weights": script.weights, "script": script}
    expected |= {"right": script.right(), "unsure": script.unsure()}
    given = {
        "constants": constants,
        "steps": 10,
        "parts": ("weights", "right", "count"),
    }
    return given, expected


_MAKE = {"A": _layer, "B": _dropout, "C": _clipping, "D": _stop, "E": _script}
