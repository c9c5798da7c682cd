"""Exercises 4.2 and 4.5a: a training with DDP that equals one plain process."""

import torch
import torch.distributed as dist

from course_lib import reference
from course_lib.attempt import (
    CLOSE,
    Attempt,
    Watched,
    Wrong,
    agree,
    gap,
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
        results = attempt(_train, *data, world_size=ranks, trace=True)
        if ranks == 2:
            attempt.draw(steps_of(results.trace, 2, 4))
        found = agree(
            [result["weights"] for result in results],
            expected,
            hint=_why_apart(results),
        )
        if gap(found, expected) > CLOSE:
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
        "read": data.read,
        "left": not dist.is_initialized(),
    }


def _alone(data, order=reference.shuffled, *, batch=_BATCH, scale=1.0):
    batches = reference.batches(data, order, batch=batch, epochs=_EPOCHS)
    return reference.weights_after(batches, scale=scale)


def _refuse_waste(results):
    sizes = reduced(results.trace, 0)
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


def _why(results, found, data):
    """The hint for ranks that agree with each other but took other steps."""
    ranks = len(results)
    share = _COUNT // ranks
    read = [result["read"] for result in results]
    if len(read[0]) > _EPOCHS * share:
        return (
            f"Rank 0 read {len(read[0])} samples, expected {_EPOCHS * share}: every"
            " rank reads all the data. Share it out by a DistributedSampler."
        )
    for epoch in range(_EPOCHS):
        now = slice(epoch * share, (epoch + 1) * share)
        if set(read[0][now]) & set(read[1][now]):
            return (
                f"In epoch {epoch} ranks 0 and 1 read some of the same samples: they"
                " shuffle differently. All ranks need the same seed and epoch."
            )
    for mistake, hint in _mistakes(data, ranks):
        if gap(found, mistake) < CLOSE:
            return hint
    return (
        "Compare with the plain training: mean cross-entropy, SGD with rate"
        f" {reference.RATE}, zero_grad before each backward, {_EPOCHS} epochs."
    )


def _mistakes(data, ranks):
    """What one process would end with if it made the mistake, and the hint."""
    yield (
        _alone(data, lambda count, epoch: reference.shuffled(count, 0)),
        "Every epoch has the same order: set_epoch is missing. Call"
        " sampler.set_epoch(epoch) on all ranks before each epoch.",
    )
    yield (
        _alone(data, lambda count, epoch: torch.arange(count)),
        "The samples come in the order in which they are stored. Let the sampler"
        " shuffle.",
    )
    yield (
        _alone(data, batch=ranks * _BATCH),
        f"Each rank takes {_BATCH} samples, so a step sees {ranks * _BATCH}. All ranks"
        f" together take {_BATCH}: divide it.",
    )
    for scale in (ranks, 1 / ranks):
        yield (
            _alone(data, scale=scale),
            f"The steps are {scale:g} times as long as they should be. DDP averages the"
            " gradients, so neither loss nor rate needs a factor world_size.",
        )
