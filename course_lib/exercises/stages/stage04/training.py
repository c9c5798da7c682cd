"""Exercises 4.2 and 4.5a: a training with DDP that equals one plain process."""

import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import (
    CLOSE,
    Watched,
    agree,
    complete,
    gap,
    gradients,
    noted,
    state_of,
    steps_of,
)
from course_lib.exercises.stages.stage04.training_mistakes import (
    COUNT,
    EPOCHS,
    STEPS,
    TWICE,
    alone,
    doubled,
    why,
    why_apart,
    why_failed,
)


@baseline.settled()
def check_train(attempt: Attempt) -> str:
    """Compare weights, cost and the end of the group on 2 and 4 ranks."""
    data = baseline.samples(COUNT)
    expected = alone(data)
    for ranks in (2, 4):
        results = attempt(_train, *data, world_size=ranks, trace=True, why=why_failed)
        if ranks == 2:
            attempt.draw(steps_of(results.trace, 2, 4))
        found = agree(
            [result["weights"] for result in results],
            expected,
            hint=why_apart(results),
        )
        if gap(found, expected) > CLOSE:
            raise Wrong(
                f"the weights of {ranks} ranks differ from those of one process by up"
                f" to {gap(found, expected):.2g}, expected at most {CLOSE:g}",
                why(results, found, data),
            )
        _refuse_idle(results)
        _refuse_waste(results)
        _refuse_unfinished(results)
    count = len(gradients(results.trace, 0))
    # an answer may send its gradients in another way
    cost = f", with {count} all-reduces" if count else ""
    return (
        f"2 and 4 ranks share the samples and have the weights of one process after"
        f" {STEPS} steps{cost}"
    )


def _train(rank, world_size, answer, *tensors):
    data = Watched(*tensors)
    # every rank starts elsewhere: DDP makes them equal
    model = baseline.network(seed=rank)
    batches = []

    def forward(module, inputs):
        if module.training and torch.is_grad_enabled() and inputs:
            batches.append(len(inputs[0]))

    model.register_forward_pre_hook(forward)
    with noted(DistributedSampler, "set_epoch") as told:
        weights = answer(rank, world_size, model, data, EPOCHS)
    return {
        "weights": state_of(weights),
        "read": [index for index in data.read if isinstance(index, int)],
        "computed": sum(batches),
        "told": told,
        "left": not dist.is_initialized(),
    }


def _refuse_idle(results):
    """Raise `Wrong` if a rank computes far more than its share, or sends too little.

    Looked at with a margin: an answer may try a batch, or compress its gradients.
    """
    ranks, share = len(results), EPOCHS * COUNT // len(results)
    done = [result["computed"] or len(result["read"]) for result in results]
    least = STEPS * baseline.size(baseline.network())
    for rank, count in enumerate(done):
        if count > 1.5 * share:
            raise Wrong(
                f"rank {rank} of {ranks} trained with {count} samples,"
                f" expected {share}",
                "The weights are right, but every rank does the work of one process."
                " Share it out: DistributedSampler(data), and divide the batch."
                if min(done) == max(done)
                else f"Rank {rank} does the work of the others. Let each rank take its"
                " own share of each batch.",
            )
        sent = results.trace.bytes(rank)
        if sent < 0.45 * least and complete(results.trace):
            raise Wrong(
                f"rank {rank} of {ranks} handed {sent:,} bytes to collectives in"
                f" {STEPS} steps, expected {least:,}",
                "The weights are right, but the gradients of this rank do not travel in"
                " each step. Wrap the model, DDP(model), and call the wrapped one.",
            )


def _refuse_waste(results):
    sizes = gradients(results.trace, 0)
    if len(sizes) >= 2 * STEPS:
        raise Wrong(
            f"rank 0 of {len(results)} made {len(sizes)} all-reduces in {STEPS} steps,"
            f" expected {STEPS}",
            f"The weights are right. {TWICE}"
            if doubled(results)
            else "The weights are right, but each parameter travels by itself. DDP"
            " packs the gradients of a small model into one bucket.",
        )


def _refuse_unfinished(results):
    for rank, result in enumerate(results):
        if not result["left"]:
            raise Wrong(
                f"rank {rank} of {len(results)} returned while it was in the group",
                "The weights are right. Leave the group before `return`, on every"
                " rank: dist.destroy_process_group().",
            )
