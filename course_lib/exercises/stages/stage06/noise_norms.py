"""Squared norms of gradients, and the noise scale that follows from them."""

import math

import torch

CLOSE = 1e-3  # relative: what is right, and how well a known mistake is met


def agrees(found: float | None, expected: float, *, most: float = CLOSE) -> bool:
    """True if a number is there and its relative difference is at most `most`."""
    return found is not None and math.isclose(found, expected, rel_tol=most)


def scale(norms, sizes):
    """tr(Σ) / |G|² from mean squared norms of gradients, and their images: b and B.

    McCandlish et al. 2018, appendix A.1, https://arxiv.org/abs/1812.06162
    """
    return noise(norms, sizes) / signal(norms, sizes)


def signal(norms, sizes):
    """|G|², the squared norm of the gradient without noise."""
    (small, big), (b, B) = norms, sizes
    return (B * big - b * small) / (B - b)


def noise(norms, sizes):
    """tr(Σ), the noise of a single image's gradient."""
    (small, big), (b, B) = norms, sizes
    return (small - big) / (1 / b - 1 / B)


class Norms:
    """Squared norms of gradients f64[batches, ranks, parameters], and their means."""

    def __init__(self, gradients: torch.Tensor, b: int):
        self.gradients = gradients
        self.count, self.ranks, _ = gradients.shape
        self.b, self.B = b, b * self.ranks
        self.local = gradients.square().sum(2)  # [batches, ranks]
        self.average = gradients.mean(1).square().sum(1)  # [batches]
        self.small, self.big = self.local.mean(), self.average.mean()
        self.sizes = self.b, self.B
        self.expected = self.scale(self.small, self.big).item()

    def scale(self, small, big):
        """The noise scale from other norms than the right ones."""
        return scale((small, big), self.sizes)

    def of(self, gradients, averages=None) -> torch.Tensor:
        """The noise scale from other gradients [batches, ranks, parameters]."""
        if averages is None:
            averages = gradients.mean(-2)
        return self.scale(
            gradients.square().sum(-1).mean(), averages.square().sum(-1).mean()
        )
