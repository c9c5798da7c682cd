"""What goes wrong when gradients are accumulated, and the hint for it."""

from functools import partial

import torch

from course_lib.exercises import baseline
from course_lib.exercises.compare import mistaken

STEPS, BATCH = 3, 48


def whole(data, pick=slice(None), **how):
    """One process with whole batches, or with the same part of each."""
    images, labels = (part.split(BATCH) for part in data)
    batches = ((x[pick], y[pick]) for x, y in zip(images, labels))
    return baseline.weights_after(batches, **how)


def why(found, data, *, seen, ranks, parts):
    """The hint for ranks that agree with each other but took other steps."""
    if seen["steps"] < STEPS:
        return "The optimizer must take one step for each list of micro-batches."
    mistakes = (*_divisors(ranks, parts), *_lost(ranks, parts))
    return mistaken(found, mistakes, partial(whole, data)) or (
        "Each micro-batch adds its mean loss, divided by their number; then one step."
    )


def _divisors(ranks, parts):
    """Losses that are divided by something else, or not at all."""
    size = BATCH // (ranks * parts)
    return (
        (
            "The gradients are a sum over micro-batches, so each step is"
            f" {parts} times too long. Divide each loss by the number of"
            " micro-batches.",
            {"scale": parts},
        ),
        (
            "DDP divides by the number of ranks already. Divide the loss by the number"
            " of micro-batches alone.",
            {"scale": 1 / ranks},
        ),
        (
            "You divide by 4, but their number differs: len(microbatches), not 4.",
            {"scale": parts / 4},
        ),
        (
            "Divide each loss by len(microbatches), not by the number of ranks: DDP"
            " does that.",
            {"scale": parts / ranks},
        ),
        (
            "The loss of a micro-batch is a mean already. What is left is to divide it"
            " by how many micro-batches there are, not by how many samples.",
            {"scale": parts / size},
        ),
    )


def _lost(ranks, parts):
    """Micro-batches that count too much, too little, or once more."""
    order = torch.arange(BATCH)
    chunks = [order[rank::ranks].chunk(parts) for rank in range(ranks)]
    first = torch.cat([part for chunk in chunks for part in chunk[:-1]])
    last = torch.cat([chunk[-1] for chunk in chunks])
    last_two = torch.cat([part for chunk in chunks for part in chunk[-2:]])
    only_last = (
        "Only the last micro-batch counts: zero_grad inside the loop wipes out the"
        " others. Call it once per step."
    )
    return (
        (only_last, {"pick": last}),
        (only_last, {"pick": last, "scale": 1 / parts}),
        (
            "Only the last two micro-batches count: zero_grad under no_sync wipes out"
            " those before them. Call it once per step.",
            {"pick": last_two, "scale": 2 / parts},
        ),
        (
            "The gradients of earlier steps are still there: zero_grad is missing.",
            {"zero": False},
        ),
        (
            "Divide the last loss, too: now it counts as much as a whole batch.",
            {"pick": torch.cat([first, *[last] * parts]), "scale": 2 - 1 / parts},
        ),
        (
            "Only the last loss is divided. Divide those under no_sync, too.",
            {
                "pick": torch.cat([*[first] * parts, last]),
                "scale": (parts * (parts - 1) + 1) / parts,
            },
        ),
    )
