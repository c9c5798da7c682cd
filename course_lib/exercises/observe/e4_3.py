"""Exercise 4.3, in a rank: an evaluation and a save in the middle of a training."""

import copy
import os
import sys
from pathlib import Path

import torch
from torch import ops
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import TensorDataset

from course_lib.exercises.compare import group
from course_lib.exercises.observe.slow_saves import slow_saves
from course_lib.exercises.spies import Work
from course_lib.exercises.values import plain


class Evaluation(Work):
    """Counts in a block; `modes` says of each BatchNorm whether it was in training.

    `sources` has the ranks that broadcast, `whole` says if it was a whole number.
    """

    def __init__(self, model: torch.nn.Module):
        super().__init__(model)
        self.modes, self.sources, self.whole = [], [], False

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator.overloadpacket is ops.aten.native_batch_norm:
            self.modes.append(args[5])
        if operator.overloadpacket is ops.c10d.broadcast_:
            self.sources.append(args[2])
            self.whole |= any(
                sent.numel() == 1 and not sent.is_floating_point() for sent in args[0]
            )
        return super().__torch_dispatch__(operator, types, args, kwargs)


def observe(rank, world_size, answer, given):
    """What each rank returns, did, and goes on with; of rank 0 also what is saved."""
    images, labels = given["data"]
    path = Path(given["folder"]) / f"weights-of-{world_size}.pt"
    saving = path.with_suffix(".saving")
    with group(rank, world_size) as device:
        model = DDP(given["model"].to(device))
        # a backward on other data per rank: now the running statistics differ, too
        own = images[rank::world_size].to(device), labels[rank::world_size].to(device)
        cross_entropy(model(own[0]), own[1]).backward()
        baseline, parameters = (
            _measured(model, images, labels),
            list(model.parameters()),
        )
        read, work = _reads(path), Evaluation(model.module)
        with slow_saves(answer, saving, seconds=given["pause"]) as saves, work:
            accuracy = answer(rank, model, TensorDataset(images, labels), str(path))
        # at once, before rank 0 goes on
        there = path.exists() and not saving.exists()
        kept = all(map(_same, parameters, model.parameters()))
        return {
            "returned": plain(accuracy),
            "there": there,
            "saves": len(saves),
            "reads": len(read),
            "file": None if rank else _content(path),
            "passes": work.passes,
            "modes": work.modes,
            "sources": work.sources,
            "whole": work.whole,
            "training": all(module.training for module in model.modules()),
            "trainable": kept and torch.is_grad_enabled(),
            "after": _state(model),
            "baseline": baseline,
        }


def _measured(model, images, labels):
    """The state of a model, and how many samples it gets right."""
    state, plain_model = _state(model), copy.deepcopy(model.module).cpu().eval()
    with torch.no_grad():
        right = (plain_model(images).argmax(1) == labels).sum().item()
    return {"state": state, "right": right, "count": len(labels)}


def _reads(path):
    """The openings of a file from now on, in any way; they cannot go unnoticed."""
    reads = []

    def heard(event, args):
        if event == "open" and str(args[0]) == str(path) and "r" in str(args[1]):
            reads.append(1)

    sys.addaudithook(heard)
    return reads


def _same(one, other):
    return one is other and other.requires_grad


def _state(model):
    return {n: value.cpu().clone() for n, value in model.module.state_dict().items()}


def _content(path):
    """A state dict, or what a file holds instead."""
    if not os.path.exists(path):
        return "nothing"
    try:
        return plain(torch.load(path, map_location="cpu", weights_only=True))
    except Exception:
        return "no plain state dict"
