"""Exercise 6.3: the gradient noise scale, measured in a launch with DDP."""

import torch
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import (
    complete,
    gap,
    group,
    number_of,
    reduced,
    state_of,
)
from course_lib.exercises.stages.stage06.noise_mistakes import (
    why_failed,
    why_none,
    why_other,
)
from course_lib.exercises.stages.stage06.noise_norms import Norms, agrees
from course_lib.text import short

# ranks, images of a rank's batch, batches; four ranks first, for they tell more
CASES = ((4, 10, 3), (2, 16, 5))
_BUCKET = 0.001  # MB: each layer has a bucket of its own, after the first batch
_ONCE = (
    "The number is right, but the work is done twice. One backward gives both norms:"
    " that of the rank's own gradient before the all-reduce, that of the average after."
)
_TWICE = (
    "The number is right, but the gradients travel more than once. Either let DDP"
    " average them, or keep it from that with no_sync() and call all_reduce yourself."
)


@baseline.settled()
def check_noise_scale(attempt: Attempt) -> str:
    """Compare the number of each rank with that of one process, and the traffic."""
    for ranks, size, count in CASES:
        data = baseline.samples(ranks * size * count)
        results = attempt(
            _measure, data, size, world_size=ranks, trace=True, why=why_failed
        )
        norms = Norms(_gradients(data, ranks, size), size)
        _judge_values(results, norms)
        _judge_work(results, norms)
        _judge_traffic(results.trace, norms)
    return (
        f"{norms.expected:.1f} images on {ranks} ranks, as one process finds it,"
        " and each gradient travelled once"
    )


def _measure(rank, world_size, answer, /, *given):
    data, size = given
    with group(rank, world_size) as device:
        network = baseline.network().to(device)
        start, counts = state_of(network), _counted(network)
        on = [device] if device.type == "cuda" else None
        model = DDP(network, device_ids=on, bucket_cap_mb=_BUCKET)
        parts = (part.to(device).split(size) for part in data)
        value = answer(rank, world_size, model, list(zip(*parts))[rank::world_size])
        return {
            "said": short(value),
            "none": value is None,
            "number": number_of(value),
            "moved": gap(start, state_of(network)) > 0,
            **counts,
        }


def _counted(network):
    """How often a network, or a copy of it, goes forward and backward."""
    counts = {"forward": 0, "backward": 0}

    def backward(_):
        counts["backward"] += 1

    def forward(*passed):
        counts["forward"] += 1
        if passed[-1].requires_grad:
            passed[-1].register_hook(backward)

    network.register_forward_hook(forward)
    return counts


def _gradients(data, ranks, size):
    """The gradient of each rank in each batch, f64[batches, ranks, parameters]."""
    network = baseline.network().double()
    parameters, found = list(network.parameters()), []
    for images, labels in zip(data[0].double().split(size), data[1].split(size)):
        loss = cross_entropy(network(images), labels)
        parts = torch.autograd.grad(loss, parameters)
        found.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(found).unflatten(0, (-1, ranks))


def _judge_values(results, norms):
    if any(seen["moved"] for seen in results):
        raise Wrong(
            f"after the last batch of {norms.count} the weights have changed",
            "The norms are those of gradients at the same weights: no optimizer step"
            " here, and nothing else that writes into parameters.",
        )
    ranks = len(results)
    found = [seen["number"] for seen in results]
    for rank, seen in enumerate(results):
        if not agrees(seen["number"], norms.expected):
            number = seen["number"]
            said = seen["said"] if number is None else f"{number:.5g}"
            raise Wrong(
                f"rank {rank} of {ranks} returned {said}, expected"
                f" {norms.expected:.5g} ({norms.count} batches of {norms.b} images on"
                " each rank)",
                why_none(results, rank)
                if number is None
                else why_other(found, norms, travelled=_travelled(results.trace)),
            )


def _travelled(trace):
    """True if gradients were all-reduced, and not norms alone."""
    return sum(reduced(trace, 0)) >= baseline.size(baseline.network())


def _judge_work(results, norms):
    for name in ("forward", "backward"):
        passes = max(seen[name] for seen in results)
        if passes > norms.count:
            raise Wrong(
                f"{passes} {name} passes for {norms.count} batches on a rank, expected"
                f" {norms.count}",
                _ONCE,
            )


def _judge_traffic(trace, norms):
    size = baseline.size(baseline.network())
    # DDP sends the weights once, and the gradients of each batch
    moved, least = trace.bytes(0) - size, norms.count * size
    if moved > 1.5 * least and complete(trace):
        raise Wrong(
            f"rank 0 of {norms.ranks} handed {moved:,} bytes to collectives for"
            f" {norms.count} batches, expected about {least:,}",
            _TWICE,
        )
