"""Exercise 9.2: trainings of one process, drawn so that each mistake shows.

The mean gradient of a step is far from 0 everywhere: AdamW divides by the size of what
it has seen, and where that is 0, rounding alone would decide on a whole step.
"""

import random

import torch
from torch import nn

from course_lib.exercises import baseline

# norms of the mean gradient, in units of `max_norm`. AdamW takes the same steps for
# gradients that are all twice as large: what was clipped shows from the next step on
_NORMS = (4.0, 0.3, 0.6, 2.0, 0.2)
_LEAST = 0.2  # of each number of a mean gradient, before it is scaled


def training(seed: int, ranks: int) -> dict:
    """Return what ranks are given: irregular weights, one frozen, and gradients."""
    numbers = random.Random(100 * seed + ranks)
    shapes = _shapes(numbers, ranks)
    max_norm, frozen = numbers.choice((0.5, 1.5, 2.5)), 2
    trained = [shape for place, shape in enumerate(shapes) if place != frozen]
    with baseline.seeded(100 * seed + ranks):
        weights = [0.5 * torch.randn(shape) for shape in shapes]
        steps = [_gradients(trained, ranks, norm * max_norm) for norm in _NORMS]
    for shares in steps:
        for share in shares:
            share.insert(frozen, None)
    given: dict = {"weights": weights, "frozen": [frozen], "steps": steps}
    given |= {"lr": numbers.choice((0.02, 0.03, 0.04)), "max_norm": max_norm}
    return given | {"generator": ranks == 2}


def _shapes(numbers, ranks):
    """Shapes of which the trained numbers are one more than ranks would divide.

    One tensor has most of them: dealt out whole, it makes a share too large.
    """
    first, third = numbers.randint(280, 320), numbers.randint(35, 45)
    shapes = [(first, 5), (17,), (numbers.randint(20, 40), 4), (third, 6), (1,)]
    count = 5 * first + 17 + 6 * third + 1
    return [*shapes, (ranks + (1 - count) % ranks,)]  # the last one is not empty


def _gradients(shapes, ranks, norm):
    """For each rank its gradients; their mean has this norm."""
    means = [torch.randn(shape) for shape in shapes]
    means = [mean.sign() * (mean.abs() + _LEAST) for mean in means]
    scale = norm / torch.cat([mean.flatten() for mean in means]).norm()
    noise = [torch.randn(ranks, *shape) for shape in shapes]
    noise = [part - part.mean(0) for part in noise]
    return [
        [scale * (mean + part[rank]) for mean, part in zip(means, noise)]
        for rank in range(ranks)
    ]


def trained(given: dict) -> dict[int, dict]:
    """Return by the number of each step the weights after it, in one process."""
    weights = [nn.Parameter(weight.clone()) for weight in given["weights"]]
    for place in given["frozen"]:
        weights[place].requires_grad = False
    optimizer = torch.optim.AdamW(weights, lr=given["lr"])
    after = {}
    for number, shares in enumerate(given["steps"]):
        for p, gradients in zip(weights, zip(*shares)):
            if p.requires_grad:
                p.grad = torch.stack(gradients).mean(0)
        nn.utils.clip_grad_norm_(weights, given["max_norm"])
        optimizer.step()
        after[number] = {str(i): p.detach().clone() for i, p in enumerate(weights)}
    return after
