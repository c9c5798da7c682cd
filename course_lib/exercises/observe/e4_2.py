"""Exercise 4.2, in a rank: a training with DDP, watched."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.data import DistributedSampler

from course_lib.exercises import baseline
from course_lib.exercises.compare import Watched, noted
from course_lib.exercises.values import plain

_STEPS = 3  # of which the first layer's weight is kept before each


class Training:
    """Counts in a block: samples of each training pass, and steps.

    A pass is one of the model's first layer, of a copy too. No operator is watched: the
    launch is recorded, and the recording would show the watching. `starts` has the
    layer's weight before the first steps, `moves` how often it was another one.
    """

    def __init__(self, model: nn.Module):
        self.passes, self.starts, self.moves = [], [], 0
        first = next(one for one in model.modules() if isinstance(one, nn.Linear))
        self._shape, self._weight, self._handle = first.weight.shape, None, None

    def __enter__(self):
        self._handle = register_module_forward_pre_hook(self._note)
        return self

    def __exit__(self, *_):
        self._handle.remove()

    def _note(self, layer, inputs):
        if not isinstance(layer, nn.Linear) or layer.weight.shape != self._shape:
            return
        if inputs and torch.is_grad_enabled():  # not one that only looks
            self.passes.append(len(inputs[0]))
            if self._weight is None or not torch.equal(layer.weight, self._weight):
                self._weight = layer.weight.detach().clone()
                self.moves += 1
                self.starts += [self._weight.cpu()] if len(self.starts) < _STEPS else []


def observe(rank, world_size, answer, given):
    """What a training on `given["data"]` gives, what each rank read and did."""
    data = Watched(*given["data"])
    # every rank starts elsewhere: DDP makes them equal
    model = baseline.network(seed=given["seed"] + rank)
    with noted(DistributedSampler, "set_epoch") as told, Training(model) as training:
        weights = answer(rank, world_size, model, data, given["epochs"])
    return {
        "returned": plain(weights),
        "read": [index for index in data.read if isinstance(index, int)],
        "passes": training.passes,
        "moves": training.moves,
        "starts": training.starts,
        "told": plain([call[0] for call in told]),
        "left": not dist.is_initialized(),
    }
