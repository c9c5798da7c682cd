"""What tests of figures share: they look at artists, and leave none behind."""

import warnings

import matplotlib
import pytest

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(autouse=True)
def no_warnings():
    """A warning below a figure is an error of its author."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def texts(ax):
    return [text.get_text() for text in ax.texts]


def title(ax):
    return ax.get_title(loc="left")
