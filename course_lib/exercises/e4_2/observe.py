"""Exercise 4.2, in a rank: a training with DDP, watched."""

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset

from course_lib.exercises import baseline
from course_lib.exercises.counted_traffic import Traffic
from course_lib.exercises.values import plain


class _Training(Traffic):
    """Also lists the weights of the first layer that forward passes were made with.

    Only where they are others than before.
    """

    def __init__(self, model):
        super().__init__(model)
        self.trained, self.weights = [], []

    def note_training(self, weight, samples):
        self.trained.append(len(samples))
        if not self.weights or not torch.equal(weight, self.weights[-1]):
            self.weights.append(weight.detach().clone())


def observe(rank, world_size, answer, given):
    """Return what a training on `given["data"]` gives, and what each rank did."""
    # every rank starts elsewhere: DDP makes them equal
    model = baseline.network(seed=given["seed"] + rank)
    data = TensorDataset(*given["data"])
    with _Training(model) as training:
        weights = answer(rank, world_size, model, data, given["epochs"])
    return {
        "returned": plain(weights),
        "passes": training.trained,
        "moves": len(training.weights),
        "sent": [call for calls in training.sent for call in calls],
        "left": not dist.is_initialized(),
    }
