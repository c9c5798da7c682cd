"""Figures in a notebook: shown at the end of the cell, with text for screen readers."""

import pytest

from tests.kernels import Kernel, shown

SHARDS = "cl.plot_sharding([[0, 2], [1, 3]]);"


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    kernel.run("import course_lib as cl")
    yield kernel
    kernel.close()


def test_every_figure_of_a_notebook_is_shown(kernel):
    pictures = [shown(kernel.run(SHARDS), "image/png") for _ in range(3)]
    assert all(pictures)


def test_a_figure_carries_text_for_screen_readers(kernel):
    page = shown(kernel.run(SHARDS), "text/html")
    assert "rank 1" in page.split('alt="')[1].split('"')[0]


def test_the_style_of_the_learner_stays_as_it_was(kernel):
    kernel.run("import matplotlib.pyplot as plt; before = dict(plt.rcParams)")
    kernel.run(SHARDS)
    assert shown(kernel.run("dict(plt.rcParams) == before")) == "True"
