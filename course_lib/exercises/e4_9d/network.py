"""The network of 4.9d and 4.9e, the steps of a training, and what one process makes."""

import random
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu

from course_lib.exercises import baseline
from course_lib.exercises.compare import numbers_of


class Branched(nn.Module):
    """Digits, f32[n, 1, 8, 8], and if to take a branch, to f32[n, 10].

    One weight is tied, its layer is used twice, another layer is frozen, and what is
    used before the branch is registered after it. A buffer is in no state dict.
    """

    def __init__(self, width):
        super().__init__()
        square = partial(nn.Linear, width, width)
        self.register_buffer("scale", 0.5 + torch.rand(64), persistent=False)
        self.first = nn.Linear(64, width, bias=False)
        self.branch, self.twice = square(), square()
        self.frozen = square().requires_grad_(False)
        self.tied = square()
        self.tied.weight = self.twice.weight
        self.last = nn.Linear(width, 10, bias=False)

    def forward(self, images, branch):
        """Return the logits."""
        x = gelu(self.first(images.flatten(1) * self.scale))
        x = self.frozen(self.twice(gelu(self.twice(x))))
        if branch:
            x = x + self.branch(x)
        return self.last(gelu(self.tied(x)))


def network(width: int, seed: int) -> Branched:
    """Return the network with parameters and buffer of a seed."""
    with baseline.seeded(seed):
        return Branched(width)


def buckets_of(model: nn.Module, cap: int) -> list[dict]:
    """Return the gradients of each bucket, bytes by name, as the task fills them."""
    buckets, room = [], 0
    for name, p in reversed([*model.named_parameters()]):
        if p.requires_grad:
            if p.nbytes > room:
                buckets.append({})
                room = cap
            buckets[-1][name] = p.nbytes
            room -= p.nbytes
    return buckets


def drawn_step(numbers: random.Random, branches) -> list:
    """Return micro-batches: of each for each rank images, labels, and if it branches.

    `branches` has for each micro-batch what each rank does.
    """
    images, labels = baseline.samples(400)
    step = []
    for chosen in branches:
        size = numbers.randint(3, 6)
        parts = [numbers.sample(range(len(labels)), size) for _ in chosen]
        step.append([(images[p], labels[p], flag) for p, flag in zip(parts, chosen)])
    return step


def alone(given: dict) -> list:
    """Return of one process first the state, then for each step gradients and state.

    A gradient is the mean over ranks, 0 where there is none.
    """
    model = network(given["width"], given["seed"])
    optimizer = baseline.optimizer(model)
    found: list = [numbers_of(model)]
    for step in given["steps"]:
        optimizer.zero_grad(set_to_none=False)
        for batch in step["batches"]:
            for *inputs, label in _inputs(batch):
                loss = cross_entropy(model(*inputs), label)
                (loss / len(batch) / len(step["batches"])).backward()
        trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        for p in trained.values():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        gradients = {name: p.grad.clone() for name, p in trained.items()}
        optimizer.step()
        found.append((gradients, numbers_of(model)))
    return found


def _inputs(batch):
    return [(images, branch, labels) for images, labels, branch in batch]
