"""Exercise 9.4: the network that is sharded."""

import torch
from torch import nn

from course_lib.exercises import baseline

COUNT = "5.passes"  # the name of its buffer


class CountedScale(nn.Module):
    """Multiply by a weight, which one rank alone can hold; a buffer counts passes.

    It is large, so that its decay shows after few steps.
    """

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((1,), 3.0))
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        """Return f32[n, width] scaled, and count a pass."""
        self.passes += 1
        return x * self.weight


def network(seed: int) -> nn.Module:
    """Return a network for the digits, f32[n, 1, 8, 8] to f32[n, 10].

    Neither 2 nor 3 ranks divide all of its parameters.
    """
    with baseline.seeded(seed):
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 251),
            nn.GELU(),
            nn.Linear(251, 130),
            nn.GELU(),
            CountedScale(),
            nn.Linear(130, 10),
        )


def share(ranks: int) -> int:
    """Return the bytes of the largest share of weights, which is that of rank 0.

    AdamW's two moments have as many each.
    """
    weights = network(0).parameters()
    rows = (-(-len(p) // ranks) * p[0].numel() * p.element_size() for p in weights)
    return sum(rows)
