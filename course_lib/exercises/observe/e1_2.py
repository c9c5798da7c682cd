"""Exercise 1.2, in a rank: the cut of a model, and the memory of a training with it."""

from torch import nn

from course_lib.exercises import baseline


def mlp(widths, seed: int = 0) -> nn.Sequential:
    """Linear layers of these widths, a ReLU behind all but the last."""
    with baseline.seeded(seed):
        pairs = zip(widths, widths[1:])
        layers = [layer for pair in pairs for layer in (nn.Linear(*pair), nn.ReLU())]
        return nn.Sequential(*layers[:-1])
