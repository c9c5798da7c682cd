"""Exercise 4.3, in a rank: an evaluation and a save in the middle of a training."""

import copy
import operator
import sys
from functools import partial
from pathlib import Path

import torch
from torch import ops
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import TensorDataset

from course_lib.exercises.compare import group, state_of
from course_lib.exercises.counted_work import Work
from course_lib.exercises.slow_saves import slow_saves
from course_lib.exercises.values import plain


class _Evaluation(Work):
    """Counts in a block; `modes` says of each BatchNorm whether it was in training.

    The file `calls` grows by a byte with each collective that this rank joins.
    """

    def __init__(self, model: torch.nn.Module, calls: Path):
        super().__init__(model)
        self.modes, self.calls = [], calls
        calls.touch()

    def note_pass(self, packet, args):
        super().note_pass(packet, args)
        if str(packet).startswith("c10d."):
            with self.calls.open("ab") as file:
                file.write(b".")
        if packet is ops.aten.native_batch_norm:
            self.modes.append(args[5])


def observe(rank, world_size, answer, given):
    """Return what each rank gives, did, and goes on with; of rank 0 also its file."""
    images, labels = given["data"]
    path = Path(given["folder"]) / f"weights-of-{world_size}.pt"
    saving = path.with_suffix(".saving")
    with group(rank, world_size) as device:
        model = DDP(given["model"].to(device))
        # a backward on other data per rank: now the running statistics differ, too
        own = [part[rank::world_size].to(device) for part in given["data"]]
        cross_entropy(model(own[0]), own[1]).backward()
        if rank:
            _drift(model.module, own[0])
        before, parameters = _measured(model, images, labels), list(model.parameters())
        calls = [path.with_suffix(f".{n}") for n in range(world_size)]
        read, work = _reads(path), _Evaluation(model.module, calls[rank])
        others_wait = partial(_waited_for, calls[rank], calls)
        with slow_saves(answer, saving, others_wait) as saves, work:
            accuracy = answer(rank, model, TensorDataset(images, labels), str(path))
        # at once, before rank 0 goes on
        there = path.exists() and not saving.exists()
        kept = all(map(operator.is_, model.parameters(), parameters))
        trainable = kept and all(one.requires_grad for one in parameters)
        return {
            "returned": plain(accuracy),
            "there": there,
            "saves": len(saves),
            "reads": len(read),
            "file": None if rank else _content(path),
            "passes": work.passes,
            "modes": work.modes,
            "training": all(module.training for module in model.modules()),
            "trainable": trainable and torch.is_grad_enabled(),
            "after": state_of(model.module),
            "baseline": before,
        }


def _drift(module, images):
    """Take running statistics of other images: only those of rank 0 are any good."""
    with torch.no_grad():
        for _ in range(10):
            module(1 - images)


def _waited_for(own, calls):
    """True if all other ranks have joined a collective that this one has not."""
    joined = own.stat().st_size
    others = [path for path in calls if path != own]
    return all(path.exists() and path.stat().st_size > joined for path in others)


def _measured(model, images, labels):
    """The state of a model, and how many samples it gets right."""
    plain_model = copy.deepcopy(model.module).cpu().eval()
    with torch.no_grad():
        right = (plain_model(images).argmax(1) == labels).sum().item()
    return {"state": state_of(plain_model), "right": right, "count": len(labels)}


def _reads(path):
    """The openings of a file from now on, in any way; they cannot go unnoticed."""
    reads = []

    def heard(event, args):
        if event == "open" and str(args[0]) == str(path) and "r" in str(args[1]):
            reads.append(1)

    sys.addaudithook(heard)
    return reads


def _content(path):
    """A state dict, or what a file holds instead."""
    try:
        return plain(torch.load(path, map_location="cpu", weights_only=True))
    except FileNotFoundError:
        return "nothing"
    except Exception:
        return "no plain state dict"
