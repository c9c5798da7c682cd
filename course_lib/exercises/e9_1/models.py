"""Exercise 9.1: models that are irregular in one way after another."""

import torch
from torch import nn


def plain(rows: int) -> nn.Module:
    """Return two layers in float32, the rows of all tensors multiples of `rows`."""
    return nn.Sequential(nn.Linear(9, 6 * rows), nn.ReLU(), nn.Linear(6 * rows, rows))


class Uneven(nn.Sequential):
    """A convolution of `rows` and layers, one of two rows, with buffers.

    It ends with a gain that belongs to no layer.
    """

    def __init__(self, rows: int):
        super().__init__(
            nn.Conv2d(1, rows, 3, padding=1),
            nn.BatchNorm2d(rows),
            nn.Flatten(),
            nn.Linear(16 * rows, rows + 2, bias=False),
            nn.ReLU(),
            nn.Linear(rows + 2, 2),
        )
        self.gain = nn.Parameter(torch.ones(2))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return two numbers for each of f32[n, 1, 4, 4]."""
        return self.gain * super().forward(images)


class TiedText(nn.Module):
    """Predicts the next of `words`: i64[n] to f32[n, words].

    Its first and its last weight are one. The first norm is frozen, and all of a layer
    in between where it is in another type than float32: `between` is that type.
    """

    def __init__(self, words: int, width: int, between: torch.dtype = torch.float32):
        super().__init__()
        self.first = nn.Embedding(words, width)
        self.norm = nn.LayerNorm(width).requires_grad_(False)
        self.up = nn.Linear(width, 3 * width + 1, dtype=between)
        self.down = nn.Linear(3 * width + 1, width, dtype=between)
        self.inner_norm = nn.LayerNorm(width)
        self.end_norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, words)
        self.last.weight = self.first.weight
        self.up.requires_grad_(between == torch.float32)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return what the model expects after each word."""
        hidden = self.norm(self.first(words))
        wide = self.up(hidden.to(self.up.weight.dtype)).relu()
        inner = self.inner_norm(self.down(wide).float())
        return self.last(self.end_norm(hidden + inner))
