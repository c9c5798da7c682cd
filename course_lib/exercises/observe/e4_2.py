"""Exercise 4.2, in a rank: a training with DDP, watched below PyTorch's functions."""

import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler

from course_lib.exercises import baseline
from course_lib.exercises.compare import Watched, noted
from course_lib.exercises.spies import Work
from course_lib.exercises.values import plain

_STEPS = 3  # of which the first layer's weight is kept before each


class Training(Work):
    """Counts in a block: samples of each training pass, steps, what was sent.

    `starts` has the first layer's weight before the first steps, `moves` how often it
    was another one than before; `sent` pairs of a collective's name and its bytes.
    """

    def __init__(self, model: torch.nn.Module):
        super().__init__(model)
        self.starts, self.moves, self.sent = [], 0, []
        self._weight = None

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator.namespace == "c10d":
            sizes = [_size(arg) for arg in args[:2]]
            name = operator.overloadpacket.__name__
            self.sent.append((name, min(filter(None, sizes), default=0)))
        return super().__torch_dispatch__(operator, types, args, kwargs)

    def _note_pass(self, packet, args):
        if torch.is_grad_enabled():  # not one that only looks
            before = len(self.passes)
            super()._note_pass(packet, args)
            if len(self.passes) > before:
                self._note_weight(args[self._places[packet][0]])

    def _note_weight(self, weight):
        if self._weight is None or not torch.equal(weight, self._weight):
            self._weight = weight.detach().clone()
            self.moves += 1
            if len(self.starts) < _STEPS:
                self.starts.append(self._weight.cpu())


def _size(value):
    """The bytes of a tensor, or of all in lists of tensors; 0 for anything else."""
    if isinstance(value, list | tuple):
        return sum(map(_size, value))
    return value.nbytes if torch.is_tensor(value) else 0


def observe(rank, world_size, answer, given):
    """What a training on `given["data"]` gives, what each rank read, did and sent."""
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
        "sent": training.sent,
        "told": plain([call[0] for call in told]),
        "left": not dist.is_initialized(),
    }
