"""Exercise 6.3, in a rank: noise scales measured with DDP, and what they cost."""

import torch
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib.exercises import baseline
from course_lib.exercises.compare import gap, group, state_of
from course_lib.exercises.spies import Work
from course_lib.exercises.values import plain

_BUCKET = 0.001  # MB: each layer has a bucket of its own, after the first batch
# where an operator of a collective has what it sends
_SENT = {"allgather_": 1, "_allgather_base_": 1, "reduce_scatter_": 1}


def observe(rank, world_size, answer, given):
    """What the answer returns for each of `given["measurements"]`, and its costs.

    One has images and labels of all ranks, and the size of a rank's batch.
    """
    place = rank, world_size
    with group(rank, world_size) as device:
        # all before the first call: no collective of the check stands between two
        models = [_model(device) for _ in given["measurements"]]
        pairs = zip(models, given["measurements"])
        return {"measured": [_measure(answer, place, *pair) for pair in pairs]}


def _model(device):
    on = [device] if device.type == "cuda" else None
    network = baseline.network().to(device)
    return DDP(network, device_ids=on, bucket_cap_mb=_BUCKET)


def _measure(answer, place, model, data):
    rank, world_size = place
    start, (images, labels, size) = state_of(model.module), data
    device = next(model.parameters()).device
    parts = (part.to(device).split(size) for part in (images, labels))
    batches = list(zip(*parts))[rank::world_size]
    with _Work(model.module) as work:
        value = answer(rank, world_size, model, list(batches))
    return {
        "returned": plain(value),
        "type": type(value).__name__,
        "moved": gap(start, state_of(model.module)) > 0,
        "flops": sum(work.flops.values()),
        "sent": work.sent,
        "baseline": costs(size) * len(batches),
    }


def costs(size):
    """FLOPs of one forward and backward with a batch of this size."""
    network = baseline.network()
    images, labels = baseline.samples(size)
    with Work(network) as work:
        cross_entropy(network(images), labels).backward()
    return sum(work.flops.values())


class _Work(Work):
    """Counts also the numbers that a rank hands to collectives."""

    def __init__(self, model):
        super().__init__(model)
        self.sent = 0

    def __torch_dispatch__(self, operator, _types, args=(), kwargs=None):
        name = operator.overloadpacket.__name__
        if operator.namespace == "c10d" and name != "barrier":
            sent = args[_SENT.get(name, 0)]
            sent = [sent] if torch.is_tensor(sent) else sent
            self.sent += sum(part.numel() for part in sent if torch.is_tensor(part))
        return super().__torch_dispatch__(operator, _types, args, kwargs)
