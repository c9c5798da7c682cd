"""Figures of processes that share memory, read through their artists."""

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from course_lib import colors
from course_lib.errors import UsageError
from course_lib.plots import figure, shares

matplotlib.use("agg")

HELD = {
    "parent": {"plain": torch.zeros(4), "shared": torch.ones(4)},
    "child": {"plain": torch.ones(4), "shared": torch.ones(4)},
}
# process, start, stop, old, new: 0 and 1 read the same number, 1 writes last
RACE = [(1, 0.51, 0.62, 0, 1), (0, 0.5, 0.6, 0, 1), (0, 0.7, 0.8, 1, 2)]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


def texts(ax):
    return [text.get_text() for text in ax.texts]


def title(ax):
    return ax.get_title(loc="left")


def bars(ax):
    """Height of every bar, by its series and the name of its group."""
    names = [label.get_text() for label in ax.get_xticklabels()]
    return {
        (series.get_label(), names[round(bar.get_x() + bar.get_width() / 2)]): height
        for series in ax.containers
        for bar in series
        if (height := bar.get_height())
    }


# --- who holds what


def test_a_private_tensor_is_drawn_per_process_and_a_shared_one_once():
    ax = shares.plot_processes(HELD)
    places = {(bar.get_x(), bar.get_y()) for bar in ax.patches}
    assert len(places) == len(ax.patches) == 2 * 4 + 4
    assert texts(ax).count("0") == 4
    assert texts(ax).count("1") == 4 + 4


def test_private_cells_have_the_colour_of_their_process_and_shared_ones_none():
    ax = shares.plot_processes(HELD)
    found = [to_hex(bar.get_facecolor()) for bar in ax.patches]
    parent, child = colors.rank_color(0), colors.rank_color(1)
    assert found[:8] == [parent] * 4 + [child] * 4
    assert not {parent, child} & set(found[8:])


def test_a_line_leads_from_each_process_to_the_shared_tensor():
    lines = shares.plot_processes(HELD).lines
    (first, second) = [line.get_xydata() for line in lines]
    np.testing.assert_array_equal(first[1], second[1])
    assert first[0, 1] < second[0, 1]


def test_the_alt_text_of_processes_tells_what_each_sees():
    ax = shares.plot_processes(HELD)
    assert title(ax) == "plain: one in each process; shared: one tensor for all"
    assert "child sees plain [1.0, 1.0, 1.0, 1.0]" in ax.alt_text


def test_other_names_can_be_shared():
    held = {who: {"weights": [who], "steps": [3]} for who in (1, 2)}
    ax = shares.plot_processes(held, shared=("weights",))
    assert texts(ax).count("3") == 2
    assert "weights: one piece of memory" in texts(ax)


@pytest.mark.parametrize("held", [{}, {"parent": {}}, {"a": {"x": [1]}, "b": {}}])
def test_processes_without_the_same_tensors_are_refused(held):
    with pytest.raises(UsageError, match="expected the same tensors of each, found"):
        shares.plot_processes(held)


# --- updates of a counter


def test_each_update_is_a_bar_from_its_read_to_its_write():
    ax = shares.plot_updates(RACE)
    spans = sorted((bar.get_x(), bar.get_width()) for bar in ax.patches)
    np.testing.assert_allclose(spans, [(0, 0.1), (0.01, 0.11), (0.2, 0.1)])
    assert sorted(texts(ax))[:3] == ["0 → 1", "0 → 1", "1 → 2"]


def test_an_update_that_the_next_write_did_not_read_is_lost():
    ax = shares.plot_updates(RACE)
    by_start = sorted(ax.patches, key=lambda bar: bar.get_x())
    assert [bar.get_label() for bar in by_start] == ["lost", "kept", "kept"]
    assert title(ax) == "3 updates, 1 lost: the counter ends at 2"


def test_without_a_loss_there_is_no_legend():
    ax = shares.plot_updates([(0, 0, 1, 0, 1), (1, 1, 2, 1, 2)])
    assert ax.get_legend() is None
    assert title(ax) == "2 updates, 0 lost: the counter ends at 2"


def test_each_process_has_its_row():
    ax = shares.plot_updates(RACE)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["process 0", "process 1"]
    rows = {bar.get_y() + bar.get_height() / 2 for bar in ax.patches}
    assert rows == {0, 1}


def test_no_updates_cannot_be_drawn():
    with pytest.raises(UsageError, match="the log of updates is empty"):
        shares.plot_updates([])


# --- times of a queue


def test_each_point_is_the_median_in_milliseconds():
    times = {"array": {400: [0.001, 0.002, 0.9], 4000: [0.004]}, "tensor": {400: [1]}}
    ax = shares.plot_sending(times)
    array, tensor = ax.lines
    np.testing.assert_allclose(array.get_xydata(), [(400, 2), (4000, 4)])
    np.testing.assert_allclose(tensor.get_xydata(), [(400, 1000)])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_the_title_tells_the_times_of_the_largest_size():
    times = {"array": {4e7: [0.15], 4: [1]}, "tensor": {4e7: [0.04]}}
    ax = shares.plot_sending(times)
    assert title(ax) == "40 MB: array 150 ms, tensor 40 ms"
    assert "from put to get (ms)" in ax.get_ylabel()


# --- staleness


def test_staleness_is_shown_in_percent_of_the_updates():
    ax = shares.plot_staleness({"two": [0, 1, 1, 1], "four": torch.tensor([3, 3])})
    assert bars(ax) == {("two", "0"): 25, ("two", "1"): 75, ("four", "3"): 100}
    assert title(ax) == "Mean staleness: two: 0.75, four: 3"


def test_large_numbers_share_a_bar_and_all_are_counted():
    numbers = [0, 4, 7, 8, 64, 1000]
    found = bars(shares.plot_staleness({"all": numbers}))
    names = [name for _, name in found]
    assert names == ["0", "4–7", "8–15", "64+"]
    assert sum(found.values()) == pytest.approx(100)


def test_updates_that_meet_nobody_fill_one_bar():
    assert bars(shares.plot_staleness({"one": np.zeros(9)})) == {("one", "0"): 100}


# --- rates


def test_rates_stand_side_by_side_for_each_number_of_processes():
    rates = {"1 thread": {1: 300, 2: 600}, "2 threads": {1: 400, 2: 20}}
    ax = shares.plot_rates(rates, noun="gradients", source="measured here")
    assert bars(ax) == {
        (series, str(n)): rate for series in rates for n, rate in rates[series].items()
    }
    assert title(ax) == "Most gradients per second: 2 processes, 1 thread (600)"
    assert ax.get_ylabel() == "gradients per second"
    assert "measured here" in texts(ax)


def test_bars_of_a_group_do_not_overlap():
    ax = shares.plot_rates({c: {1: 5, 2: 5} for c in "abc"})
    edges = sorted((b.get_x(), b.get_x() + b.get_width()) for b in ax.patches)
    assert all(one[1] <= two[0] for one, two in zip(edges, edges[1:], strict=False))


DRAWN = {
    shares.plot_processes: HELD,
    shares.plot_updates: RACE,
    shares.plot_sending: {"array": {4: [1]}},
    shares.plot_staleness: {"two": [0, 1]},
    shares.plot_rates: {"one": {1: 2}},
}


@pytest.mark.parametrize("plot", DRAWN, ids=lambda plot: plot.__name__)
def test_a_figure_has_the_common_frame_and_takes_axes(plot):
    ax = plot(DRAWN[plot])
    assert ax.figure.get_figwidth() == figure.WIDTH
    assert ax.alt_text.startswith(title(ax))
    _, given = matplotlib.pyplot.subplots()
    assert plot(DRAWN[plot], ax=given) is given
