"""Exercises 4.2 and 4.5a: a training with DDP that equals one plain process."""

import torch
import torch.distributed as dist

from course_lib import reference
from course_lib.attempt import Attempt, Wrong
from course_lib.evidence import (
    CLOSE,
    Watched,
    agree,
    gap,
    gradients,
    reduced,
    state_of,
    steps_of,
)

_COUNT, _BATCH, _EPOCHS = 320, 64, 3
_STEPS = _EPOCHS * _COUNT // _BATCH


def check_train(attempt: Attempt) -> str:
    """Compare weights, cost and the end of the group on 2 and 4 ranks."""
    data = reference.samples(_COUNT)
    expected = _alone(data)
    for ranks in (2, 4):
        results = attempt(_train, *data, world_size=ranks, trace=True, why=_why_failed)
        if ranks == 2:
            attempt.draw(steps_of(results.trace, 2, 4))
        found = agree(
            [result["weights"] for result in results],
            expected,
            hint=_why_apart(results),
        )
        if not gap(found, expected) <= CLOSE:
            raise Wrong(
                f"the weights of {ranks} ranks differ from those of one process by up"
                f" to {gap(found, expected):.2g}, expected at most {CLOSE:g}",
                _why(results, found, data),
            )
        _refuse_waste(results)
        _refuse_unfinished(results)
    return (
        f"2 and 4 ranks have the weights of one process after {_STEPS} steps, with"
        f" {_STEPS} all-reduces"
    )


def _train(rank, world_size, answer, *tensors):
    data = Watched(*tensors)
    # every rank starts elsewhere: DDP makes them equal
    model = reference.network(seed=rank)
    weights = answer(rank, world_size, model, data, _EPOCHS)
    return {
        "weights": state_of(weights),
        "read": [index for index in data.read if isinstance(index, int)],
        "left": not dist.is_initialized(),
    }


def _alone(data, order=reference.shuffled, *, batch=_BATCH, **how):
    batches = reference.batches(data, order, batch=batch, epochs=_EPOCHS)
    return reference.weights_after(batches, **how)


def _refuse_waste(results):
    sizes = gradients(results.trace, 0)
    if len(sizes) >= 2 * _STEPS:
        raise Wrong(
            f"rank 0 of {len(results)} made {len(sizes)} all-reduces in {_STEPS} steps,"
            f" expected {_STEPS}",
            "The weights are right, but each parameter travels by itself. DDP packs the"
            " gradients of a small model into one bucket.",
        )


def _refuse_unfinished(results):
    for rank, result in enumerate(results):
        if not result["left"]:
            raise Wrong(
                f"rank {rank} of {len(results)} returned while it was in the group",
                "The weights are right. Leave the group at the end:"
                " dist.destroy_process_group().",
            )


def _why_apart(results):
    if not reduced(results.trace, 0):
        return (
            "No gradient travelled, so each rank trained a model of its own. Wrap the"
            " model, DDP(model), and call the wrapped one."
        )
    return (
        "Gradients travelled, but the ranks did not start from the same weights, or did"
        " not take the same steps."
    )


def _why_failed(error):
    if error.kind in ("late", "lost"):
        return (
            "Every rank trains, with the same number of steps: each backward waits for"
            " those of the others."
        )
    return None


def _why(results, found, data):
    """The hint for ranks that agree with each other but took other steps."""
    ranks = len(results)
    read = [result["read"] for result in results]
    if all(read):  # empty where the samples were taken in another way
        hint = _why_read(read)
        if hint:
            return hint
    # long steps magnify the rounding, so a large difference is met less exactly
    close = CLOSE + 1e-3 * gap(found, _alone(data))
    for hint, order, how in (*_orders(), *_factors(ranks)):
        if gap(found, _alone(data, order or reference.shuffled, **how)) < close:
            return hint
    if gap(found, reference.network().state_dict()) < CLOSE:
        return "These are the weights of the start: the optimizer never steps."
    if all(read) and not _deals(read):
        return (
            "The samples come in another order. Leave the sampler its own seed, 0, and"
            " give it the number of the epoch."
        )
    return (
        "Compare with the plain training: mean cross-entropy, SGD with rate"
        f" {reference.RATE}, zero_grad before each backward, {_EPOCHS} epochs."
    )


def _why_read(read):
    """The hint for ranks that share the samples out in a wrong way, or None."""
    ranks, count = len(read), len(read[0])
    expected = _EPOCHS * _COUNT // ranks
    told = f"Rank 0 read {count} samples, expected {expected}: "
    if count == _EPOCHS * _COUNT:
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
    for epoch in range(_EPOCHS):
        now = slice(epoch * _COUNT // ranks, (epoch + 1) * _COUNT // ranks)
        if set(read[0][now]) & set(read[1][now]):
            return (
                f"In epoch {epoch} ranks 0 and 1 read some of the same samples: they"
                " shuffle differently. All ranks need the same seed and epoch."
            )
    return None


def _deals(read):
    """True if rank 0 read what DistributedSampler gives it."""
    orders = [reference.shuffled(_COUNT, epoch) for epoch in range(_EPOCHS)]
    return read[0] == torch.cat([order[:: len(read)] for order in orders]).tolist()


def _orders():
    """Hints, and the order in which one process reads that makes the mistake."""
    last = _COUNT // _BATCH - 1
    stored = "The samples come in the order in which they are stored. "
    return (
        (
            "Every epoch has the same order: set_epoch is missing. Call"
            " sampler.set_epoch(epoch) on all ranks before each epoch.",
            lambda count, epoch: reference.shuffled(count, 0),
            {},
        ),
        (
            "Every epoch is still like the others: set_epoch always gets one number,"
            " and needs that of this epoch.",
            lambda count, epoch: reference.shuffled(count, _EPOCHS),
            {},
        ),
        (
            "set_epoch comes one epoch too late: a loader asks for the order when its"
            " loop begins.",
            lambda count, epoch: reference.shuffled(count, max(0, epoch - 1)),
            {},
        ),
        (
            "Here epochs count from 0: set_epoch(epoch), with nothing added.",
            lambda count, epoch: reference.shuffled(count, epoch + 1),
            {},
        ),
        (
            "set_epoch gets the number of the batch. It belongs before the loop over"
            " batches, with the number of the epoch.",
            lambda count, epoch: reference.shuffled(count, last if epoch else 0),
            {},
        ),
        (
            f"{stored}Let the sampler shuffle.",
            lambda count, epoch: torch.arange(count),
            {},
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
            f"Each rank takes {_BATCH} samples, so a step sees {ranks * _BATCH}. All"
            f" ranks together take {_BATCH}: divide it.",
            None,
            {"batch": ranks * _BATCH},
        ),
        (
            "Each rank takes half of a batch, however many ranks there are: divide by"
            " world_size, not by 2.",
            None,
            {"batch": ranks * _BATCH // 2},
        ),
        (factor.format(ranks), None, {"scale": ranks}),
        (factor.format(1 / ranks), None, {"scale": 1 / ranks}),
        (
            "The loss is a sum over samples. Take their mean, so that a step does not"
            " grow with the batch: it is what cross_entropy does by itself.",
            None,
            {"scale": _BATCH / ranks},
        ),
        (
            "The gradients of earlier steps are still there: zero_grad is missing.",
            None,
            {"zero": False},
        ),
    )
