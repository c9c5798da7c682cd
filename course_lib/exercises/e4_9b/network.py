"""Exercises 4.9b and 4.9c: a network of which a batch trains a part."""

import torch
from torch import nn
from torch.nn.functional import relu

from course_lib.exercises.baseline import seeded

TASKS = 3


class ManyTasks(nn.Module):
    """Digits f32[n, 1, 8, 8] and the number of a task to f32[n, 10].

    The first layer is frozen, two layers share one weight, each task has a last layer.
    A buffer is in no state dict. Without a task the outputs of all are added up.
    """

    def __init__(self, narrow, wide):
        super().__init__()
        self.register_buffer("scale", 0.5 + torch.rand(64), persistent=False)
        self.look = nn.Linear(64, narrow).requires_grad_(False)
        self.mix = nn.Linear(narrow, wide)
        self.inner, self.outer = nn.Linear(wide, wide), nn.Linear(wide, wide)
        self.outer.weight = self.inner.weight
        self.tasks = nn.ModuleList(nn.Linear(wide, 10) for _ in range(TASKS))

    def forward(self, images: torch.Tensor, task: int | None) -> torch.Tensor:
        """Return the logits of one task, or of all."""
        flowing = relu(self.look(images.flatten(1) * self.scale))
        flowing = relu(self.mix(flowing))
        flowing = relu(self.outer(relu(self.inner(flowing))))
        if task is None:
            return sum(last(flowing) for last in self.tasks)
        return self.tasks[task](flowing)


def network(seed: int, narrow: int, wide: int) -> ManyTasks:
    """Return the network with the random numbers of a seed."""
    with seeded(seed):
        return ManyTasks(narrow, wide)
