"""Exercises 4.5b and 4.5c: bugs of hand-written loops, which DDP itself prevents."""

import torch

from course_lib import reference
from course_lib.attempt import (
    CLOSE,
    Attempt,
    Wrong,
    agree,
    gap,
    group,
    number_of,
    reduced,
    state_of,
)

_STEPS, _BATCH = 5, 48


def check_by_hand(attempt: Attempt) -> str:
    """Compare the weights with those of rank 0's model, trained by one process."""
    images, labels = reference.samples(_STEPS * _BATCH)
    batches = list(zip(images.split(_BATCH), labels.split(_BATCH)))
    size = reference.size(reference.network())
    for ranks in (2, 3):
        results = attempt(_by_hand, batches, world_size=ranks, trace=True)
        starts = [result["start"] for result in results]
        expected = reference.weights_after(batches, start=starts[0])
        found = agree(
            [result["weights"] for result in results],
            expected,
            hint=_why_apart(results.trace),
        )
        if gap(found, expected) > CLOSE:
            raise Wrong(
                f"the weights of {ranks} ranks differ from those of one process by up"
                f" to {gap(found, expected):.2g}, expected at most {CLOSE:g}",
                _why(found, batches, starts),
            )
        _refuse_waste(results.trace, size)
    return "2 and 3 ranks train the model of rank 0, with one broadcast of its weights"


def _by_hand(rank, world_size, answer, /, *given):
    (batches,) = given
    made = []

    def make_model():
        model = reference.unseeded()
        made.append(state_of(model))
        return model

    torch.manual_seed(1000 + rank)  # other weights on each rank, the same every time
    weights = answer(rank, world_size, make_model, batches)
    return {"weights": state_of(weights), "start": made[-1] if made else {}}


def _refuse_waste(trace, size):
    moved, least = trace.bytes(0), (_STEPS + 1) * size
    if moved > 1.2 * least:
        raise Wrong(
            f"rank 0 of {len(trace.ranks)} handed {moved:,} bytes to collectives,"
            f" expected {least:,}",
            "The weights are right, but they travel too often. Equal gradients keep"
            " equal weights equal: send the weights once, before the first step.",
        )


def _why_apart(trace):
    if not reduced(trace, 0):
        return "The gradients must still be averaged in each step: keep the all-reduce."
    if not len(trace.select(0, "communicate", "broadcast")):
        return (
            "The ranks start from different weights, and equal gradients keep the"
            " difference. Make the start equal: broadcast rank 0's parameters."
        )
    return (
        "Something was broadcast, and still the ranks differ. Every parameter must come"
        " from the same rank: src=0 on all of them, before the first step."
    )


def _why(found, batches, starts):
    ranks = len(starts)
    mistakes = (
        (
            reference.weights_after(batches, start=_mean(starts)),
            "All ranks start from the mean of their weights, so the result depends on"
            " their number. Start from rank 0's: dist.broadcast, src=0.",
        ),
        (
            reference.weights_after(batches, start=starts[0], scale=ranks),
            f"The gradients are a sum over {ranks} ranks: keep the division.",
        ),
        (
            reference.weights_after(batches, start=starts[-1]),
            "All ranks start from the weights of the last one. Take rank 0: src=0.",
        ),
    )
    for mistake, hint in mistakes:
        if gap(found, mistake) < CLOSE:
            return hint
    return (
        "The ranks agree in the end, but they computed gradients at different weights"
        " on the way. Make them equal before the first step."
    )


def _mean(states):
    return {
        name: torch.stack([state[name] for state in states]).mean(0)
        for name in states[0]
    }


# --- 4.5c


def check_mean_loss(attempt: Attempt) -> str:
    """Look at what each rank returns and prints, and what travels."""
    for ranks in (2, 3):
        results = attempt(_mean_loss, world_size=ranks, trace=True, why=_why_stuck)
        mean = sum(result["before"] for result in results) / ranks
        for rank, result in enumerate(results):
            if result["mean"] is None or abs(result["mean"] - mean) > CLOSE:
                raise Wrong(
                    f"rank {rank} of {ranks} returned {_shown(result['mean'])},"
                    f" expected {mean:.4f}, the mean over all ranks",
                    _why_mean(results, rank, mean=mean),
                )
            if abs(result["after"] - result["before"]) > CLOSE:
                raise Wrong(
                    f"the loss of rank {rank} was {result['before']:.4f} and is now"
                    f" {result['after']:.4f}",
                    "all_reduce writes into the tensor that it is given. Give it a"
                    " copy: loss.detach().clone().",
                )
        _judge_prints(results, mean)
    return "every rank has the mean, rank 0 alone prints it, and nobody waits in vain"


def _mean_loss(rank, world_size, answer):
    with group(rank, world_size) as device:
        weight = torch.full((1,), 2.0, device=device, requires_grad=True)
        loss = (weight * (rank + 1) ** 2).mean()
        before = loss.item()
        mean = answer(rank, world_size, loss)
        after = loss.item()
        return {"before": before, "after": after, "mean": number_of(mean)}


def _shown(value):
    return value if value is None else f"{value:.4f}"


def _judge_prints(results, mean):
    printed = [bool(text.strip()) for text in results.output]
    ranks = len(results)
    for rank in range(1, ranks):
        if printed[rank]:
            raise Wrong(
                f"rank {rank} of {ranks} printed, expected rank 0 alone",
                "Printing is what belongs under `if rank == 0`; the all-reduce does"
                " not.",
            )
    if f"{mean:.3f}" not in results.output[0]:
        raise Wrong(
            f"rank 0 of {ranks} printed {results.output[0].strip()[:60]!r}, expected"
            f" the mean loss {mean:.3f}",
            "Rank 0 prints the mean with three digits: keep the line of the original.",
        )


def _why_mean(results, rank, *, mean):
    ranks, found = len(results), results[rank]["mean"]
    if found is None:
        return "Every rank returns the mean as a number, not rank 0 alone."
    if abs(found - ranks * mean) < CLOSE:
        return f"That is the sum over {ranks} ranks. Divide it by their number."
    own = abs(found - results[rank]["before"]) < CLOSE
    if own and not reduced(results.trace, rank):
        return (
            "That is the rank's own loss: nothing travelled. Without the all-reduce"
            " nothing hangs, but nobody knows the mean."
        )
    return (
        "Every rank needs the mean: call all_reduce on all of them, reduce gives it to"
        " one."
    )


def _why_stuck(error):
    return (
        "A collective under `if rank == 0`: only rank 0 calls it, and waits for the"
        " others for ever. All ranks make the call, rank 0 prints."
    )
