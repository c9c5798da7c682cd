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
from course_lib.exercises.values import shown
from course_lib.text import listed

_SIZES = ((2, 5, 48), (5, 3, 45))  # ranks, steps, samples in a batch
_SEED = 1000  # of rank 0's model, which others must not have by chance
_LEAST, _MOST = 0.6, 1.6  # of the work of a share
_TRAVEL = 1.15  # of the gradients


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
    if gap(made, start) > 0:  # made with a seed of the answer's own
        start, expected = _from(made, case)
    states = [state(result["returned"]) for result in seen]
    try:
        found = agree(states, expected, hint="")
        off = gap(found, expected)
        if off > CLOSE:
            raise Wrong(
                f"the weights of {ranks} ranks differ from those of one process by up"
                f" to {off:.2g}, expected at most {CLOSE:g}"
            )
    except Wrong as wrong:
        if not wrong.hint:
            wrong.hint = _why(seen, start, batches)
            wrong.clue = {"apart": [apart(one, expected) for one in states]}
        raise
    for rank, result in enumerate(seen):
        _refuse_cost(result, steps=len(batches), where=f"rank {rank} of {ranks}")
    return f"{ranks}{_remark(seen)}"


def _from(made, case):
    """The weights that rank 0 made, and those that they end with."""
    usual, _ = case.expected
    if gap(made, usual) == float("inf"):
        raise Wrong(
            "rank 0 made no model, expected one from make_model()",
            "All ranks train the model of rank 0: it calls make_model(), and its"
            " parameters go to the others.",
        )
    return made, baseline.weights_after(case.given["batches"], start=made)


def state(returned):
    """The weights of a state dict, or what was returned instead."""
    items = returned.items() if isinstance(returned, dict) else [(None, None)]
    if all(isinstance(name, str) and torch.is_tensor(part) for name, part in items):
        return returned
    return shown(returned)


def _why(seen, start, batches):
    """The hint for other weights: what the first step of each rank starts from."""
    firsts = [result["first"] for result in seen]
    for rank, result in enumerate(seen):
        if not _LEAST < _work(result) < _MOST:
            return (
                f"Rank {rank} computed {_work(result):.2g} times what its share of the"
                " samples needs. With any number of ranks each takes its own part of a"
                " batch: slice(rank, None, world_size)."
            )
    if any(gap(first["weights"], start) == float("inf") for first in firsts):
        return (
            "Let all ranks start from rank 0's weights, and take the same steps:"
            " optimizer.step() with the mean of their gradients."
        )
    other = [
        [name for name in start if (first["weights"][name] != start[name]).any()]
        for first in firsts
    ]
    if any(other):
        return _why_start(seen, other)
    return _why_step(firsts, start, batches[0])


def _why_start(seen, other):
    """The hint for a start; `other` lists by rank the parameters not of rank 0's."""
    rank = next(rank for rank, names in enumerate(other) if names)
    own = seen[rank]
    if own["models"] > 1:
        return (
            f"Rank {rank} made {own['models']} models. Send, train and return one and"
            " the same: what the optimizer is given are not the weights of the last."
        )
    if own["started"] and not gap(own["first"]["weights"], own["made"]):
        return (
            "Weights were sent, but into a copy that the model does not use."
            " dist.broadcast writes into its tensor: give it parameter.data."
        )
    alike = all(names == other[0] for names in other)
    first = own["first"]["weights"]
    counts = f"{len(other[rank])} of {len(first)} parameters"
    return (
        f"The ranks start from {'other' if alike else 'different'} weights: when the"
        f" first step begins, {counts} of rank {rank} are not those that rank 0 made,"
        f" {listed(other[rank])}. Equal gradients keep such a difference. Make them"
        " equal before the first step: dist.broadcast(parameter.data, src=0) on all"
        " ranks, for each parameter."
    )


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
            return "When the optimizer steps, each parameter needs its gradient."
        if off > CLOSE:
            shares = [1 / ranks] * ranks
            noun = {"noun": "mean losses", "of": "ranks"}
            counts = weighed(first["gradient"], each, shares, off=off, **noun)
            return f"This is about the first step of rank {rank}. {counts}"
    return (
        "The first step is right on all ranks, and later the weights become others."
        " Nothing but the optimizer may change them, by averaged gradients."
    )


def _work(result):
    return result["flops"] / result["baseline"]["flops"]


def _refuse_cost(result, *, steps, where):
    work = _work(result)
    if not _LEAST < work < _MOST:
        raise Wrong(
            f"{where} computed {work:.2g} times what its share of the samples needs,"
            " expected 1",
            "The weights are right, but the work is not shared out: each rank takes its"
            " own part of each batch, as the loop of the exercise does.",
        )
    size = steps * baseline.size(baseline.network())
    if result["reduced"] > 1.8 * size:
        raise Wrong(
            f"{where} all-reduced {result['reduced']:,} bytes in its steps, expected"
            f" {size:,}",
            "The weights are right, but the gradients travel twice. DDP averages them"
            " in its backward: either DDP, or your own all-reduce.",
        )
    if result["sent"] > _TRAVEL * size:
        raise Wrong(
            f"{where} handed {result['sent']:,} bytes to collectives in its steps,"
            f" expected {size:,}",
            "The weights are right, but they travel too often. Equal gradients keep"
            " equal weights equal: send the weights once, before the first step.",
        )


def _remark(seen):
    made = [result["made"] for result in seen]
    if any(gap(other, made[0]) for other in made):
        return ""
    return " (by a seed)"


def failed(case: Case, wrong):
    """Tell of broadcasts that do not fit together."""
    if wrong.error.kind == "stalled":
        wrong.hint = (
            "The ranks are in different lines. A broadcast is for all: every rank must"
            " call it, those that receive as well as the one that sends."
        )
        if len(own_lines(wrong.error)) == 1:
            wrong.hint = (
                "All ranks wait in the same line. In a broadcast all of them name the"
                " same source: src=0, not the own rank."
            )
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
