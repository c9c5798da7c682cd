"""Exercise 4.5b: a hand-written loop whose ranks must start from equal weights."""

from functools import partial

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from course_lib.exercises import baseline
from course_lib.exercises.attempt import STUCK, Attempt, Wrong
from course_lib.exercises.compare import (
    CLOSE,
    agree,
    complete,
    gap,
    mistaken,
    own_lines,
    reduced,
    state_of,
)

_STEPS, _BATCH = 5, 48


@baseline.settled()
def check_by_hand(attempt: Attempt) -> str:
    """Compare the weights with those of rank 0's model, trained by one process."""
    images, labels = baseline.samples(_STEPS * _BATCH)
    batches = list(zip(images.split(_BATCH), labels.split(_BATCH)))
    size = baseline.size(baseline.network())
    for ranks in (2, 3):
        results = attempt(
            _by_hand, batches, world_size=ranks, trace=True, why=_why_waits
        )
        starts = [result["start"] for result in results]
        expected = baseline.weights_after(batches, start=starts[0])
        found = agree(
            [result["weights"] for result in results],
            expected,
            hint=_why_apart(results),
        )
        if gap(found, expected) > CLOSE:
            raise Wrong(
                f"the weights of {ranks} ranks differ from those of one process by up"
                f" to {gap(found, expected):.2g}, expected at most {CLOSE:g}",
                _why(found, batches, starts),
            )
        _refuse_waste(results.trace, size)
    proof = (
        "2 and 3 ranks start from the same weights and end with those of one process"
    )
    sent = results.trace.bytes(0) - _STEPS * size
    if complete(results.trace) and sent < size / 2:
        proof += (
            " (a seed works while all ranks build the model in the same way; a"
            " broadcast always does)"
        )
    return proof


def _by_hand(rank, world_size, answer, /, *given):
    (batches,) = given
    made, first = [], []

    def make_model():
        model = baseline.unseeded()
        made.append(state_of(model))
        return model

    def step(optimizer, *_):
        if not first:
            groups = optimizer.param_groups
            first.extend(p.detach().cpu().clone() for g in groups for p in g["params"])

    torch.manual_seed(1000 + rank)  # other weights on each rank, the same every time
    handle = register_optimizer_step_pre_hook(step)
    weights = answer(rank, world_size, make_model, batches)
    handle.remove()
    return {
        "weights": state_of(weights),
        "start": made[-1] if made else {},
        "first": first,
    }


def _refuse_waste(trace, size):
    moved, least = trace.bytes(0), (_STEPS + 1) * size
    averaged = sum(reduced(trace, 0))
    if averaged > 1.8 * _STEPS * size:
        raise Wrong(
            f"rank 0 of {len(trace.ranks)} all-reduced {averaged:,}"
            f" bytes, expected {_STEPS * size:,}",
            "The weights are right, but the gradients travel twice. DDP averages them"
            " in its backward: either DDP, or your own all-reduce.",
        )
    if moved > 1.2 * least:
        raise Wrong(
            f"rank 0 of {len(trace.ranks)} handed {moved:,} bytes to collectives,"
            f" expected {least:,}",
            "The weights are right, but they travel too often. Equal gradients keep"
            " equal weights equal: send the weights once, before the first step.",
        )


_AVERAGE = "The gradients must still be averaged in each step: keep the all-reduce."


def _why_waits(error):
    if error.kind not in STUCK:
        return None
    if len(own_lines(error)) == 1:
        return (
            "All ranks wait in the same line. In a broadcast all of them name the same"
            " source: src=0, not the own rank."
        )
    return (
        "The ranks are in different lines. A broadcast is for all: every rank must call"
        " it, those that receive as well as the one that sends."
    )


def _why_apart(results):
    trace, first = results.trace, [result["first"] for result in results]
    equal = [torch.equal(*pair) for pair in zip(first[0], first[-1])]
    if not reduced(trace, 0):
        return _AVERAGE
    if equal and all(equal):
        return (
            "The ranks start from equal weights and then drift apart: what all_reduce"
            " is given are not the gradients. Average parameter.grad."
        )
    if not len(trace.select(0, "communicate", "broadcast")):
        return (
            "The ranks start from different weights, and equal gradients keep the"
            " difference. Make the start equal: broadcast rank 0's parameters."
        )
    if equal and not any(equal):
        return (
            "Weights were broadcast, but into a copy that the model does not use."
            " dist.broadcast writes into its tensor: give it parameter.data."
        )
    return (
        "Something was broadcast, and still the ranks differ. Every parameter must come"
        " from the same rank: src=0 on all of them, before the first step."
    )


def _why(found, batches, starts):
    ranks = len(starts)
    part = [(images[::ranks], labels[::ranks]) for images, labels in batches]
    mistakes = (
        (
            "All ranks start from the mean of their weights, so the result depends on"
            " their number. Start from rank 0's: dist.broadcast, src=0.",
            {"start": _mean(starts)},
        ),
        (
            f"The gradients are a sum over {ranks} ranks: keep the division.",
            {"start": starts[0], "scale": ranks},
        ),
        (
            "All ranks start from the weights of the last one. Take rank 0: src=0.",
            {"start": starts[-1] or starts[0]},
        ),
        (_AVERAGE, {"start": starts[0], "batches": part}),
    )
    alone = partial(baseline.weights_after, batches=batches)
    return mistaken(found, mistakes, alone) or (
        "The ranks agree in the end, but they computed gradients at different weights"
        " on the way. Make them equal before the first step."
    )


def _mean(states):
    """The mean of all ranks' weights; of rank 0's if others made none."""
    states = [state for state in states if state]
    return {
        name: torch.stack([state[name] for state in states]).mean(0)
        for name in states[0]
    }
