"""Exercise 9.4, in a rank: a call that goes on from a checkpoint, and saves one."""

import os
from pathlib import Path

import torch.distributed as dist

# what answers import takes its time, so it is there before the ranks are
from torch.distributed import checkpoint as checkpoint
from torch.distributed import fsdp as fsdp
from torch.distributed.tensor import DTensor

from course_lib.exercises.compare import group
from course_lib.exercises.device_runs import one_gpu
from course_lib.exercises.e9_4.network import network
from course_lib.exercises.values import plain


def observe(rank, world_size, answer, given):
    """Return the whole state after a call, bytes of this rank, and written files."""
    device, _ = one_gpu()
    model, folder = network(given["seed"]).to(device), Path(given["folder"])
    batches = [
        tuple(part[rank::world_size].to(device) for part in batch)
        for batch in given["batches"]
    ]
    before = _files(folder)
    with group(rank, world_size, gpus=False):
        answer(model, batches, str(folder))
        dist.barrier()  # who still saves waits here, and not among the weights
        weights = plain(_whole(model))
        after = _files(folder)
        dist.barrier()
    written = {n: size for n, (size, *_) in after.items() if after[n] != before.get(n)}
    return {"weights": weights, "held": _held(model), "files": written}


def _whole(model):
    """All weights and buffers; of what is sharded every rank gathers the whole."""
    return {
        name: value.full_tensor() if isinstance(value, DTensor) else value
        for name, value in model.state_dict().items()
    }


def _held(model):
    """The bytes of the parameters that this rank holds."""
    parts = (p.to_local() if isinstance(p, DTensor) else p for p in model.parameters())
    return sum(part.numel() * part.element_size() for part in parts)


def _files(folder):
    """The bytes of each file by its path in a folder, and what a write changes."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            known = path.stat()
            name = os.path.relpath(path, folder)
            files[name] = known.st_size, known.st_mtime_ns, known.st_ino
    return files
