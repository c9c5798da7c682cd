"""Exercise 6.3, in a rank: noise scales measured with DDP, and what they cost."""

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib.exercises import baseline
from course_lib.exercises.compare import gap, group, state_of
from course_lib.exercises.counted_work import Work, flops_of
from course_lib.exercises.values import plain

_BUCKET = 0.001  # MB: each layer has a bucket of its own, after the first batch
# where an operator of a collective has what it sends
_SENT = {"allgather_": 1, "_allgather_base_": 1, "reduce_scatter_": 1}


def observe(rank, world_size, answer, given):
    """Return what the answer gives for each of the `measurements`, and its costs.

    One has images and labels of all ranks, and the size of a rank's batch.
    """
    with group(rank, world_size) as device:
        # all before the first call: no collective of the check stands between two
        networks = [baseline.network().to(device) for _ in given["measurements"]]
        models = [DDP(network, bucket_cap_mb=_BUCKET) for network in networks]
        measured = []
        for model, (images, labels, size) in zip(models, given["measurements"]):
            parts = zip(images.to(device).split(size), labels.to(device).split(size))
            batches, start = list(parts)[rank::world_size], state_of(model.module)
            with _Work(model.module) as work:
                value = answer(rank, world_size, model, list(batches))
            found = {
                "returned": plain(value),
                "type": type(value).__name__,
                "moved": gap(start, state_of(model.module)) > 0,
                "flops": sum(work.flops.values()),
                "sent": work.sent,
                "baseline": flops_of([baseline.samples(size)] * len(batches)),
            }
            measured.append(found)
        return {"measured": measured}


class _Work(Work):
    """Counts also the numbers that a rank hands to collectives."""

    sent = 0

    def note_pass(self, packet, args):
        super().note_pass(packet, args)
        space, name = str(packet).split(".")
        if space == "c10d" and name != "barrier":
            sent = args[_SENT.get(name, 0)]
            parts = [sent] if torch.is_tensor(sent) else sent
            self.sent += sum(part.numel() for part in parts if torch.is_tensor(part))
