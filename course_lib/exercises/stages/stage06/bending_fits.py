"""Fits of a curve of steps over batch sizes."""

import numpy as np


def line(x, y, weights=None) -> tuple[float, float]:
    """Constant and slope of a straight line; the weights multiply the errors."""
    slope, constant = np.polyfit(x, y, 1, w=weights)
    return constant, slope


def fitted(sizes: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """Least steps and knee of a curve, from the least squares of relative errors."""
    return knee_of(line(1 / sizes, counts, 1 / counts))


def knee_of(coefficients) -> tuple[float, float]:
    """Least steps and knee from the constant and the slope."""
    constant, slope = coefficients
    return constant, slope / constant
