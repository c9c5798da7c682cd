"""Exercise 4.4: accumulate gradients with one all-reduce per step."""

import contextlib

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib import reference
from course_lib.attempt import Attempt, Wrong
from course_lib.evidence import (
    CLOSE,
    agree,
    gap,
    gradients,
    group,
    state_of,
    steps_of,
)

_STEPS, _BATCH = 3, 48


def check_accumulate(attempt: Attempt) -> str:
    """Compare weights with those of whole batches, and count the all-reduces."""
    data = reference.samples(_STEPS * _BATCH)
    expected = _whole(data)
    size = reference.size(reference.network())
    for ranks, parts in ((2, 4), (4, 2)):
        results = attempt(_steps, data, parts, world_size=ranks, trace=True)
        if ranks == 2:
            attempt.draw(steps_of(results.trace, 0, 2))
        sizes = gradients(results.trace, 0)
        if len(sizes) != _STEPS or sum(sizes) > 1.1 * _STEPS * size:
            raise Wrong(
                f"rank 0 of {ranks} made {len(sizes)} all-reduces of"
                f" {sum(sizes):,} bytes in {_STEPS} steps of {parts} micro-batches,"
                f" expected {_STEPS} of {_STEPS * size:,} bytes",
                _why_count(sizes, results[0], parts),
            )
        found = agree(
            [result["weights"] for result in results],
            expected,
            hint=_why_apart(results[0], parts),
        )
        if not gap(found, expected) <= CLOSE:
            raise Wrong(
                f"after {_STEPS} steps the weights differ from those of whole batches"
                f" by up to {gap(found, expected):.2g}, expected at most {CLOSE:g}",
                _why(found, data, seen=results[0], ranks=ranks, parts=parts),
            )
    return (
        f"one all-reduce of {size:,} bytes per step on 2 and 4 ranks, weights as with"
        " whole batches"
    )


def _steps(rank, world_size, answer, /, *given):
    (images, labels), parts = given
    with group(rank, world_size) as device:
        model = DDP(reference.network(seed=rank).to(device))
        optimizer = reference.optimizer(model)
        seen = _Seen(model, optimizer)
        for step in range(_STEPS):
            own = slice(step * _BATCH + rank, (step + 1) * _BATCH, world_size)
            batch = images[own].to(device), labels[own].to(device)
            answer(model, optimizer, list(zip(*(part.chunk(parts) for part in batch))))
        weights = state_of(model.module.state_dict())
        return {"weights": weights, **seen.counts}


class _Seen:
    """What an answer does with model and optimizer, to tell its mistake."""

    def __init__(self, model, optimizer):
        self.counts = {"sends": [], "asked": 0, "quiet": 0, "steps": 0}
        self._no_sync, model.no_sync = model.no_sync, self._asked
        model.register_forward_pre_hook(self._forward)
        optimizer.register_step_post_hook(self._step)

    def _asked(self):
        self.counts["asked"] += 1
        return self._quiet()

    @contextlib.contextmanager
    def _quiet(self):
        self.counts["quiet"] += 1
        with self._no_sync():
            yield

    def _forward(self, model, _):
        self.counts["sends"].append(model.require_backward_grad_sync)

    def _step(self, *_):
        self.counts["steps"] += 1


def _whole(data, pick=slice(None), **how):
    """One process with whole batches, or with the same part of each."""
    images, labels = (part.split(_BATCH) for part in data)
    batches = ((x[pick], y[pick]) for x, y in zip(images, labels))
    return reference.weights_after(batches, **how)


def _why_count(sizes, seen, parts):
    if not seen["sends"]:
        return "No micro-batch goes through the model, so there is nothing to send."
    if not sizes:
        return (
            "Every micro-batch is under no_sync, so no gradient ever travels. The last"
            " one of a step must run outside of it."
        )
    if len(sizes) == parts * _STEPS and all(seen["sends"]):
        if seen["quiet"]:
            return (
                "The forward pass stands outside no_sync, and there DDP decides whether"
                " the next backward sends. Put forward and backward inside."
            )
        if seen["asked"]:
            return (
                "model.no_sync() alone does nothing: it needs `with` before it, and"
                " forward and backward inside."
            )
        return (
            "Each backward sends its gradients. Run all micro-batches but the last"
            " under model.no_sync()."
        )
    return (
        "Let DDP send the gradients, once: in the backward of the last micro-batch."
        " Nothing else needs to travel."
    )


def _why_apart(seen, parts):
    if seen["steps"] == parts * _STEPS:
        return (
            "The optimizer steps after each micro-batch, with gradients that have not"
            " travelled. Step once, after the last one."
        )
    sends = seen["sends"][:parts]
    if sends.count(True) == 1 and not sends[-1]:
        return (
            f"The gradients travel with micro-batch {sends.index(True) + 1} of {parts},"
            " and what is added later stays on its rank. The last one must send."
        )
    return "Some gradients stayed on their rank: the last backward of a step must send."


def _why(found, data, *, seen, ranks, parts):
    if seen["steps"] < _STEPS:
        return "The optimizer must take one step for each list of micro-batches."
    mistakes = (*_divisors(ranks, parts), *_lost(ranks, parts))
    for how, hint in mistakes:
        if gap(found, _whole(data, **how)) < CLOSE:
            return hint
    return (
        "Each micro-batch adds its mean loss, divided by their number; then one step."
    )


def _divisors(ranks, parts):
    """Losses that are divided by something else, or not at all."""
    size = _BATCH // (ranks * parts)
    return (
        (
            {"scale": parts},
            "The gradients are a sum over micro-batches, so each step is"
            f" {parts} times too long. Divide each loss by the number of"
            " micro-batches.",
        ),
        (
            {"scale": 1 / ranks},
            "DDP divides by the number of ranks already. Divide the loss by the number"
            " of micro-batches alone.",
        ),
        (
            {"scale": parts / 4},
            "You divide by 4, but their number differs: len(microbatches), not 4.",
        ),
        (
            {"scale": parts / ranks},
            "Divide each loss by len(microbatches), not by the number of ranks: DDP"
            " does that.",
        ),
        (
            {"scale": parts / size},
            "The loss of a micro-batch is a mean already. What is left is to divide it"
            " by how many micro-batches there are, not by how many samples.",
        ),
    )


def _lost(ranks, parts):
    """Micro-batches that count too much, too little, or once more."""
    order = torch.arange(_BATCH)
    chunks = [order[rank::ranks].chunk(parts) for rank in range(ranks)]
    first = torch.cat([part for chunk in chunks for part in chunk[:-1]])
    last = torch.cat([chunk[-1] for chunk in chunks])
    only_last = (
        "Only the last micro-batch counts: zero_grad inside the loop wipes out the"
        " others. Call it once per step."
    )
    return (
        ({"pick": last}, only_last),
        ({"pick": last, "scale": 1 / parts}, only_last),
        (
            {"zero": False},
            "The gradients of earlier steps are still there: zero_grad is missing.",
        ),
        (
            {"pick": torch.cat([first, *[last] * parts]), "scale": 2 - 1 / parts},
            "Divide the last loss, too: now it counts as much as a whole batch.",
        ),
        (
            {
                "pick": torch.cat([*[first] * parts, last]),
                "scale": (parts * (parts - 1) + 1) / parts,
            },
            "Only the last loss is divided. Divide those under no_sync, too.",
        ),
    )
