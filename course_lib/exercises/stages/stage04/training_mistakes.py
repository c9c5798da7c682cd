"""What goes wrong in a training with DDP, and the hint for it."""

from functools import partial

import torch

from course_lib.exercises import baseline
from course_lib.exercises.attempt import STUCK
from course_lib.exercises.compare import CLOSE, gap, gradients, mistaken, reduced

COUNT, BATCH, EPOCHS = 320, 64, 3
STEPS = EPOCHS * COUNT // BATCH

TWICE = "DDP has averaged already: remove your own all_reduce."

_MISSING = (
    "Every epoch has the same order: set_epoch is missing. Call"
    " sampler.set_epoch(epoch) on all ranks before each epoch."
)
_ONE_NUMBER = (
    "Every epoch is still like the others: set_epoch always gets the same number, and"
    " needs that of this epoch."
)


def alone(data, order=baseline.shuffled, *, batch=BATCH, **how):
    """The weights of one process, which makes a known mistake if it is told to."""
    batches = baseline.batches(data, order, batch=batch, epochs=EPOCHS)
    return baseline.weights_after(batches, **how)


def doubled(results) -> bool:
    """True if DDP's all-reduces of everything are there, and others beside them."""
    sizes, size = gradients(results.trace, 0), baseline.size(baseline.network())
    return len(sizes) >= 2 * STEPS and sum(one >= size for one in sizes) >= STEPS


def why_apart(results):
    """The hint for ranks that end with different weights."""
    if not reduced(results.trace, 0):
        return (
            "No gradient travelled, so each rank trained a model of its own. Wrap the"
            " model, DDP(model), and call the wrapped one."
        )
    return (
        "Gradients travelled, but the ranks did not start from the same weights, or did"
        " not take the same steps."
    )


def why_failed(error):
    """The hint for a failed launch, or None."""
    if error.kind in (*STUCK, "lost"):
        return (
            "Every rank trains, with the same number of steps: each backward waits for"
            " those of the others."
        )
    return None


def why(results, found, data):
    """The hint for ranks that agree with each other but took other steps."""
    ranks = len(results)
    read = [result["read"] for result in results]
    if all(read):  # empty where the samples were taken in another way
        hint = _why_read(read)
        if hint:
            return hint
    if doubled(results):
        return TWICE
    # long steps magnify the rounding, so a large difference is met less exactly
    close = CLOSE + 1e-3 * gap(found, alone(data))
    mistakes = (*_orders(), *_factors(ranks))
    hint = mistaken(found, mistakes, partial(alone, data), close=close)
    if hint:
        return _ONE_NUMBER if hint == _MISSING and _told(results) else hint
    if gap(found, baseline.network().state_dict()) < CLOSE:
        return "These are the weights of the start: the optimizer never steps."
    if all(read) and not _deals(read):
        return (
            "The samples come in another order. Leave the sampler its own seed, 0, and"
            " give it the number of the epoch."
        )
    return (
        "Compare with the plain training: mean cross-entropy, SGD with rate"
        f" {baseline.RATE}, zero_grad before each backward, {EPOCHS} epochs."
    )


def _why_read(read):
    """The hint for ranks that share the samples out in a wrong way, or None."""
    ranks, count = len(read), len(read[0])
    expected = EPOCHS * COUNT // ranks
    told = f"Rank 0 read {count} samples, expected {expected}: "
    if count == EPOCHS * COUNT:
        return (
            f"{told}every rank reads all the data. Share it out by a"
            " DistributedSampler."
        )
    if count > expected:
        return f"{told}the sampler deals to fewer ranks than there are."
    if count < expected:
        return f"{told}the function returned before all epochs were done."
    if read[0] == read[1]:
        return (
            "Ranks 0 and 1 read the same samples. Each sampler needs its own rank,"
            " which it knows from the group."
        )
    for epoch in range(EPOCHS):
        now = slice(epoch * COUNT // ranks, (epoch + 1) * COUNT // ranks)
        if set(read[0][now]) & set(read[1][now]):
            return (
                f"In epoch {epoch} ranks 0 and 1 read some of the same samples: they"
                " shuffle differently. All ranks need the same seed and epoch."
            )
    return None


def _told(results):
    """True if set_epoch was called for each epoch, with one number."""
    calls = results[0]["told"]
    return len(calls) >= EPOCHS and len(set(calls)) == 1


def _deals(read):
    """True if rank 0 read what DistributedSampler gives it."""
    orders = [baseline.shuffled(COUNT, epoch) for epoch in range(EPOCHS)]
    return read[0] == torch.cat([order[:: len(read)] for order in orders]).tolist()


def _orders():
    """Hints, and the order in which one process reads that makes the mistake."""
    shuffled, last = baseline.shuffled, COUNT // BATCH - 1
    return (
        (_MISSING, {"order": lambda n, epoch: shuffled(n, 0)}),
        (_ONE_NUMBER, {"order": lambda n, epoch: shuffled(n, EPOCHS)}),
        (
            "set_epoch comes one epoch too late: a loader asks for the order when its"
            " loop begins.",
            {"order": lambda n, epoch: shuffled(n, max(0, epoch - 1))},
        ),
        (
            "Here epochs count from 0: set_epoch(epoch), with nothing added.",
            {"order": lambda n, epoch: shuffled(n, epoch + 1)},
        ),
        (
            "set_epoch gets the number of the batch. It belongs before the loop over"
            " batches, with the number of the epoch.",
            {"order": lambda n, epoch: shuffled(n, last if epoch else 0)},
        ),
        (
            "The samples come in the order in which they are stored. Let the sampler"
            " shuffle.",
            {"order": lambda n, epoch: torch.arange(n)},
        ),
    )


def _factors(ranks):
    """Hints, and how else one process takes its steps that makes the mistake."""
    factor = (
        "The steps are {:g} times as long as they should be. DDP averages the"
        " gradients, so neither loss nor rate needs a factor world_size."
    )
    return (
        (
            f"Each rank takes {BATCH} samples, so a step sees {ranks * BATCH}. All"
            f" ranks together take {BATCH}: divide it.",
            {"batch": ranks * BATCH},
        ),
        (
            "Each rank takes half of a batch, however many ranks there are: divide by"
            " world_size, not by 2.",
            {"batch": ranks * BATCH // 2},
        ),
        (factor.format(ranks), {"scale": ranks}),
        (factor.format(1 / ranks), {"scale": 1 / ranks}),
        (
            "The loss is a sum over samples. Take their mean, so that a step does not"
            " grow with the batch: it is what cross_entropy does by itself.",
            {"scale": BATCH / ranks},
        ),
        (
            "The gradients of earlier steps are still there: zero_grad is missing.",
            {"zero": False},
        ),
    )
