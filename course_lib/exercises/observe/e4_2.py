"""Exercise 4.2, in a rank: a training with DDP, watched."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from course_lib.exercises import baseline
from course_lib.exercises.compare import Watched
from course_lib.exercises.values import plain


@contextlib.contextmanager
def _watched(model: nn.Module):
    """Yield two lists: the samples of each training pass, and the weights it is with.

    A pass is one of the model's first layer, of a copy too. No operator is watched: the
    launch is recorded, and the recording would show the watching. Of weights there are
    only those of this layer, and only where they are others than before.
    """
    first = next(one for one in model.modules() if isinstance(one, nn.Linear))
    passes, starts, shape = [], [], first.weight.shape

    def note(layer, inputs):
        if not isinstance(layer, nn.Linear) or layer.weight.shape != shape:
            return
        if inputs and torch.is_grad_enabled():  # not one that only looks
            passes.append(len(inputs[0]))
            if not starts or not torch.equal(layer.weight, starts[-1]):
                starts.append(layer.weight.detach().clone())

    handle = register_module_forward_pre_hook(note)
    try:
        yield passes, starts
    finally:
        handle.remove()


def observe(rank, world_size, answer, given):
    """What a training on `given["data"]` gives, what each rank read and did."""
    data = Watched(*given["data"])
    # every rank starts elsewhere: DDP makes them equal
    model = baseline.network(seed=given["seed"] + rank)
    with _watched(model) as (passes, starts):
        weights = answer(rank, world_size, model, data, given["epochs"])
    return {
        "returned": plain(weights),
        "read": [index for index in data.read if isinstance(index, int)],
        "passes": passes,
        "moves": len(starts),
        "starts": [start.cpu() for start in starts[:2]],
        "left": not dist.is_initialized(),
    }
