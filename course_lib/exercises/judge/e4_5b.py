"""Exercise 4.5b, decided: a hand-written loop whose ranks must start alike."""

import random
from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, agree, apart, gap, largest, own_lines
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.judge.e2_2 import gradient, weighed
from course_lib.exercises.observe.e4_5b import observe
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import listed

_TEXTS = Texts("4.5b")
_SIZES = ((2, 5, 48), (5, 3, 45))  # ranks, steps, samples in a batch
_SEED = 1000  # of rank 0's model, which others must not have by chance
_LEAST, _MOST = 0.6, 1.6  # of the work of a share
_TWICE, _TRAVEL = 1.8, 1.15  # times the gradients: all-reduced, sent in all


def cases(seed: int) -> Iterator[Case]:
    """Two ranks and five; expected are the weights that rank 0's model ends with.

    They belong to the model that it makes by its own seed.
    """
    sizes = _SIZES if not seed else _drawn(random.Random(seed))
    for ranks, steps, size in sizes:
        images, labels = baseline.samples((seed + 1) * steps * size)
        batches = list(zip(images.split(size), labels.split(size)))[-steps:]
        given = {"batches": batches, "seed": _SEED * (seed + 1)}
        start = baseline.network(given["seed"]).state_dict()
        expected = start, baseline.weights_after(batches, start=start)
        yield Case(given, world_size=ranks, expected=expected)


def _drawn(numbers):
    for ranks in numbers.sample((2, 3, 4, 5), 2):
        yield ranks, numbers.randint(3, 6), ranks * numbers.randint(6, 12)


def judge(case: Case, seen) -> str:
    """Compare the weights with those of rank 0's model, then look at the cost."""
    ranks, batches = case.world_size, case.given["batches"]
    start, expected = case.expected
    made = seen[0]["made"]
    if gap(made, start) == float("inf"):
        raise _TEXTS.wrong("no model")
    if gap(made, start) > 0:  # made with a seed of the answer's own
        start, expected = made, baseline.weights_after(batches, start=made)
    states = [state(result["returned"]) for result in seen]
    try:
        off = gap(agree(states, expected, hint=""), expected)
        if off > CLOSE:
            raise _TEXTS.wrong("weights", ranks=ranks, off=off, most=CLOSE)
    except Wrong as wrong:
        if not wrong.hint:
            wrong.hint = _why(seen, start, batches[0])
            wrong.clue = {"apart": [apart(one, expected) for one in states]}
        raise
    size = len(batches) * baseline.size(baseline.network())
    for rank, result in enumerate(seen):
        _judge_cost(result, size, {"rank": rank, "ranks": ranks})
    alike = not any(gap(result["made"], made) for result in seen)
    return f"{ranks} (by a seed)" if alike else f"{ranks}"


def state(returned):
    """The weights of a state dict, or what was returned instead."""
    items = returned.items() if isinstance(returned, dict) else [(None, None)]
    if all(isinstance(name, str) and torch.is_tensor(part) for name, part in items):
        return returned
    return shown(returned)


def _why(seen, start, batch):
    """The hint for other weights: what the first step of each rank starts from."""
    firsts = [result["first"] for result in seen]
    for rank, result in enumerate(seen):
        if not _LEAST < _work(result) < _MOST:
            return _TEXTS.hint("other work", rank=rank, work=_work(result))
    if any(gap(first["weights"], start) == float("inf") for first in firsts):
        return _TEXTS.hint("no step")
    other = [
        [name for name in start if (first["weights"][name] != start[name]).any()]
        for first in firsts
    ]
    for rank, names in enumerate(other):
        if names:
            alike = all(names == other[0] for names in other)
            which = "other" if alike else "different"
            return _why_start(rank, seen[rank], names, other=which)
    return _why_step(firsts, start, batch)


def _why_start(rank, own, names, *, other):
    """The hint for a rank whose parameters of these names are not rank 0's."""
    first = own["first"]["weights"]
    if own["models"] > 1:
        return _TEXTS.hint("models", rank=rank, models=own["models"])
    if own["started"] and not gap(first, own["made"]):
        return _TEXTS.hint("copy")
    counts = {"count": len(names), "all": len(first), "names": listed(names)}
    return _TEXTS.hint("start", rank=rank, other=other, **counts)


def _why_step(firsts, start, batch):
    """The hint for ranks that start alike: by how much each counts in the gradient."""
    model, ranks = baseline.network(), len(firsts)
    model.load_state_dict(start)
    own = [[part[rank::ranks] for part in batch] for rank in range(ranks)]
    each = [gradient(model, cross_entropy(model(x), y)) for x, y in own]
    right = {name: sum(part[name] for part in each) / ranks for name in start}
    for rank, first in enumerate(firsts):
        off = gap(first["gradient"], right) / largest(right)
        if off == float("inf"):
            return _TEXTS.hint("no gradient")
        if off > CLOSE:
            shares = [1 / ranks] * ranks
            noun = {"noun": "mean losses", "of": "ranks"}
            counts = weighed(first["gradient"], each, shares, off=off, **noun)
            return f"{_TEXTS.hint('first step', rank=rank)} {counts}"
    return _TEXTS.hint("later")


def _work(result):
    return result["flops"] / result["baseline"]["flops"]


def _judge_cost(result, size, where):
    work, reduced, sent = _work(result), result["reduced"], result["sent"]
    if not _LEAST < work < _MOST:
        raise _TEXTS.wrong("work", work=work, **where)
    if reduced > _TWICE * size:
        raise _TEXTS.wrong("reduced", reduced=reduced, expected=size, **where)
    if sent > _TRAVEL * size:
        raise _TEXTS.wrong("sent", sent=sent, expected=size, **where)


def failed(case: Case, wrong):
    """Tell of broadcasts that do not fit together."""
    if wrong.error.kind == "stalled":
        alike = len(own_lines(wrong.error)) == 1
        wrong.hint = _TEXTS.hint("same line" if alike else "different lines")
    raise wrong


EXERCISE = Exercise(
    "4.5b",
    observe,
    cases,
    judge,
    proof="on {} ranks all train the model of rank 0, each with its share of the"
    " samples, and no more travels in the steps",
    failed=failed,
)
