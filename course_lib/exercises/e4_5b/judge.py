"""Exercise 4.5b, decided: a hand-written loop whose ranks must start alike."""

import random
from collections.abc import Iterator
from math import inf

from course_lib.exercises import baseline
from course_lib.exercises.compare import apart, gap, refuse_weights
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.text import listed

_TEXTS = Texts("4.5b")
_SIZES = ((2, 5, 48), (5, 3, 45))  # ranks, steps, samples in a batch
_SEED = 1000  # of rank 0's model, which others must not have by chance


def cases(seed: int) -> Iterator[Case]:
    """Yield two ranks and five; expected are the weights that rank 0's model ends with.

    They belong to the model that it makes by its own seed.
    """
    sizes = _SIZES if not seed else _drawn(random.Random(seed))
    for ranks, steps, size in sizes:
        images, labels = baseline.samples((seed + 1) * steps * size)
        batches = list(zip(images.split(size), labels.split(size)))[-steps:]
        own = _SEED * (seed + 1)
        start = baseline.network(own).state_dict()
        expected = start, baseline.weights_after(batches, start=start)
        given = {"batches": batches, "seed": own}
        yield Case(given, world_size=ranks, expected=expected)


def _drawn(numbers):
    for ranks in numbers.sample((2, 3, 4, 5), 2):
        yield ranks, numbers.randint(3, 6), ranks * numbers.randint(6, 12)


def judge(case: Case, seen) -> str:
    """Compare the weights with those of rank 0's model, then look at the cost."""
    ranks, batches = case.world_size, case.given["batches"]
    start, expected = case.expected
    made = seen[0]["made"]
    if 0 < gap(made, start) < inf:  # made with a seed of the answer's own
        start, expected = made, baseline.weights_after(batches, start=made)
    work, *traffic = _facts(seen, len(batches))
    other = _TEXTS.differing([work])
    hint = f"Here {other}. {other.hint}" if other else _why(seen, start)
    refuse_weights([one["returned"] for one in seen], expected, hint=hint)
    _TEXTS.refuse([work, *traffic])
    return str(ranks)


def _facts(seen, steps):
    """What each rank computed and sent in its steps."""
    work, size = seen[0]["baseline"]["flops"], steps * baseline.size(baseline.network())
    return (
        ("work", [one["flops"] for one in seen], work, 0.6 * work, 1.6 * work),
        ("reduced", [one["reduced"] for one in seen], size, 0, 1.8 * size),
        ("sent", [one["sent"] for one in seen], size, 0, 1.15 * size),
    )


def _why(seen, start):
    """The hint for other weights: what the first step of a rank starts from."""
    for rank, one in enumerate(seen):
        first, models = one["first"], one["models"]
        names = [name for name, off in apart(first, start).items() if off.any()]
        if names:
            copied = one["started"] and not gap(first, one["made"])
            why = "models" if models > 1 else "copy" if copied else "start"
            fill = {"count": len(names), "all": len(start), "names": listed(names)}
            return _TEXTS.hint(why, rank=rank, models=models, **fill)
    return _TEXTS.hint("steps")
