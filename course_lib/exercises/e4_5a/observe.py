"""Exercise 4.5a, in a rank: a training, and which samples went through its model."""

import torch.distributed as dist
from torch import nn
from torch.utils.data import DistributedSampler, TensorDataset

from course_lib.exercises import baseline
from course_lib.exercises.compare import noted
from course_lib.exercises.counted_traffic import Traffic
from course_lib.exercises.counted_work import flops_of
from course_lib.exercises.values import plain


class _Read(Traffic):
    """Also lists the samples of each forward pass that a backward may follow.

    However they are read: a sample is known by its pixels, -1 by none.
    """

    def __init__(self, model, images):
        super().__init__(model)
        self.read = []
        self._numbers = {_bytes(image): i for i, image in enumerate(images)}

    def note_training(self, weight, samples):
        self.read.append([self._numbers.get(_bytes(row), -1) for row in samples])


def _bytes(image):
    return image.detach().cpu().numpy().tobytes()


def observe(rank, world_size, answer, given):
    """Return what a training gives, the samples it took, what it told the sampler."""
    images, labels = given["data"]
    # every rank starts elsewhere: DDP makes them equal
    model = baseline.network(seed=rank)
    flops = flops_of([(images[:1], labels[:1])])  # of one sample
    spy = _Read(model, images)
    with noted(DistributedSampler, "set_epoch") as told, spy:
        data = TensorDataset(images, labels)
        returned = answer(rank, world_size, model, data, given["epochs"])
    if isinstance(returned, nn.Module):
        returned = returned.state_dict()
    return {
        "returned": plain(returned),
        "read": spy.read,
        "told": plain([numbers[0] for numbers in told if numbers]),
        "reduced": sum(spy.calls("all_reduce")),
        "flops": sum(spy.flops.values()),
        "left": not dist.is_initialized(),
        "baseline": {"flops": flops},
    }
