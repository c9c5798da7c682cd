"""The figure of processes that share memory, read through its artists."""

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from course_lib import colors
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.plots.processes import plot_processes
from tests.figures import close_figures, no_warnings, texts, title  # noqa: F401

HELD = {
    "parent": {"plain": torch.zeros(4), "shared": torch.ones(4)},
    "child": {"plain": torch.ones(4), "shared": torch.ones(4)},
}


def test_a_private_tensor_is_drawn_per_process_and_a_shared_one_once():
    ax = plot_processes(HELD)
    places = {(bar.get_x(), bar.get_y()) for bar in ax.patches}
    assert len(places) == len(ax.patches) == 2 * 4 + 4
    assert texts(ax).count("0") == 4
    assert texts(ax).count("1") == 4 + 4


def test_private_cells_have_the_colour_of_their_process_and_shared_ones_none():
    ax = plot_processes(HELD)
    shades = [to_hex(bar.get_facecolor()) for bar in ax.patches]
    parent, child = colors.rank_color(0), colors.rank_color(1)
    assert shades[:8] == [parent] * 4 + [child] * 4
    assert not {parent, child} & set(shades[8:])


def test_a_line_leads_from_each_process_to_the_shared_tensor():
    lines = plot_processes(HELD).lines
    (first, second) = [line.get_xydata() for line in lines]
    np.testing.assert_array_equal(first[1], second[1])
    assert first[0, 1] < second[0, 1]


def test_the_alt_text_of_processes_tells_what_each_sees():
    ax = plot_processes(HELD)
    assert title(ax) == "plain: one in each process; shared: one tensor for all"
    assert "child sees plain [1.0, 1.0, 1.0, 1.0]" in ax.alt_text


@pytest.mark.parametrize("held", [{}, {"parent": {}}, {"a": {"x": [1]}, "b": {}}])
def test_processes_without_the_same_tensors_are_refused(held):
    with pytest.raises(UsageError, match="expected the same tensors of each, found"):
        plot_processes(held)


def test_a_figure_has_the_common_frame_and_takes_axes():
    ax = plot_processes(HELD)
    assert ax.figure.get_figwidth() == figure.WIDTH
    assert ax.alt_text.startswith(title(ax))
    _, given = matplotlib.pyplot.subplots()
    assert plot_processes(HELD, ax=given) is given
