"""Figures of bars, read through their artists."""

import math

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer

from course_lib import colors
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.plots.bars import _Bar, interval, plot_bars
from tests.figures import close_figures, no_warnings, texts, title  # noqa: F401

NAN = math.nan
RATES = {"1 thread": {1: 300, 2: 600}, "2 threads": {1: 400, 2: 20}}
ERRORS = {"a": [1, 2, 3], "b": [4, 4, 4]}


def series(ax):
    return [bars for bars in ax.containers if isinstance(bars, BarContainer)]


def names(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


def heights(ax):
    """Height of every bar, by its series and the name of its group."""
    return {
        (bars.get_label(), names(ax)[round(bar.get_x() + bar.get_width() / 2)]): height
        for bars in series(ax)
        for bar in bars
        if (height := bar.get_height())
    }


def intervals(ax):
    """The lower and the upper end of each interval, by the place of its bar."""
    ends = [bars for bars in ax.containers if not isinstance(bars, BarContainer)]
    lines = [lines[0].get_segments()[0] for _, _, lines in ends]
    return {low[0]: (low[1], high[1]) for low, high in lines}


def values(ax):
    """The points of each bar."""
    return [line.get_ydata() for line in ax.lines if line.get_label() == "values"]


# --- bars by series


def test_bars_stand_side_by_side_for_each_name():
    ax = plot_bars(RATES, ylabel="gradients per second", source="measured here")
    assert heights(ax) == {
        (label, str(n)): rate for label in RATES for n, rate in RATES[label].items()
    }
    assert ax.get_ylabel() == "gradients per second"
    assert "measured here" in texts(ax)


def test_a_series_has_its_colour_and_one_entry_in_the_legend():
    ax = plot_bars(RATES, ylabel="y")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [*RATES]
    shades = [[to_hex(bar.get_facecolor()) for bar in bars] for bars in series(ax)]
    assert shades == [[colors.rank_color(n)] * 2 for n in (0, 1)]


def test_bars_of_a_group_do_not_overlap():
    ax = plot_bars({c: {1: 5, 2: 5} for c in "abc"}, ylabel="y")
    edges = sorted((b.get_x(), b.get_x() + b.get_width()) for b in ax.patches)
    assert all(one[1] <= two[0] for one, two in zip(edges, edges[1:], strict=False))


def test_a_series_without_a_name_leaves_its_place_free():
    ax = plot_bars({"two": {"0": 25, "1": 75}, "four": {"3": 100}}, ylabel="%")
    assert heights(ax) == {("two", "0"): 25, ("two", "1"): 75, ("four", "3"): 100}


def test_one_series_alone_has_no_legend():
    ax = plot_bars({"a": 1, "b": 2}, ylabel="y")
    assert ax.get_legend() is None and names(ax) == ["a", "b"]


def test_every_height_is_written_above_its_bar_and_told():
    ax = plot_bars(RATES, ylabel="y", title="Threads")
    assert {"300", "600", "400", "20"} <= {*texts(ax)}
    told = "1 thread: 1: 300 and 2: 600; 2 threads: 1: 400 and 2: 20"
    assert ax.alt_text == f"Threads. {told}. measured."


def test_an_axis_of_thousands_is_numbered_as_its_bars_are():
    ax = plot_bars({"a": 6191, "b": 2500}, ylabel="y")
    ax.figure.draw_without_rendering()
    marks = [label.get_text() for label in ax.get_yticklabels()]
    assert {"2,000", "6,000"} <= {*marks} and "6,191" in texts(ax)


def test_heights_that_do_not_fit_are_left_out():
    many = {c: {n: 1000 + n for n in range(20)} for c in "abc"}
    assert not any(text.startswith("1,0") for text in texts(plot_bars(many, ylabel="")))


def test_long_names_are_broken_and_touch_no_others():
    words = [f"a name of many words, {n}" for n in range(4)]
    ax = plot_bars(dict.fromkeys(words, 1), ylabel="y", source="below them")
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(a.x1 < b.x0 for a, b in zip(boxes, boxes[1:]))
    (source,) = (text for text in ax.texts if text.get_text() == "below them")
    assert source.get_window_extent().y1 < min(box.y0 for box in boxes)


@pytest.mark.parametrize("nothing", [{}, {"one": {}}])
def test_no_bars_cannot_be_drawn(nothing):
    with pytest.raises(UsageError, match="cannot draw bars: found none"):
        plot_bars(nothing, ylabel="y")


# --- several values for a bar


def test_each_seed_is_a_point_and_the_mean_has_its_interval():
    ax = plot_bars(ERRORS, ylabel="error (%)")
    assert [point.tolist() for point in values(ax)] == [[1, 2, 3], [4, 4, 4]]
    assert [bar.get_height() for bar in ax.patches] == [2, 4]
    ends = intervals(ax)
    np.testing.assert_allclose(ends[0], (2 - 2.484, 2 + 2.484), atol=0.01)
    np.testing.assert_allclose(ends[1], (4, 4))
    assert ax.get_ylabel() == "error (%)"


def test_points_of_a_bar_lie_side_by_side_and_stay_on_it():
    ax = plot_bars({"a": [1] * 9, "b": [1] * 9}, ylabel="y")
    lines = [line for line in ax.lines if line.get_label() == "values"]
    for bar, line in zip(ax.patches, lines, strict=True):
        places = line.get_xdata()
        assert len({*places}) == 9
        assert bar.get_x() < min(places) < max(places) < bar.get_x() + bar.get_width()


def test_mean_and_interval_are_told_in_words():
    ax = plot_bars({"a": torch.tensor([1.0, 2, 3])}, ylabel="y")
    assert "2.0 ± 2.5" in texts(ax)
    assert "a: 2.0 ± 2.5 (3 seeds)" in ax.alt_text


def test_one_seed_alone_has_no_interval_and_none_is_told():
    ax = plot_bars({"a": [1.5]}, ylabel="y", source="")
    assert [text for text in texts(ax) if text] == ["1.5"]
    assert "a: 1.5." in ax.alt_text
    assert not intervals(ax)


def test_words_stand_above_all_points_and_in_the_figure():
    ax = plot_bars({"a": [1.0, 2, 30], "b": [-5.0, -4]}, ylabel="y")
    ax.figure.draw_without_rendering()
    for text, top in zip(ax.texts[1:], (30, 0), strict=True):
        box = text.get_window_extent()
        assert ax.transData.transform((0, top))[1] < box.y0
        assert box.y1 <= ax.bbox.y1


@pytest.mark.parametrize("count", [2, 3, 8, 12, 24, 26, 27, 40, 100, 1000])
def test_an_interval_is_that_of_students_t(count):
    from scipy import stats

    numbers = np.random.default_rng(count).normal(5, 2, count)
    low, high = stats.t.interval(
        0.95, count - 1, loc=numbers.mean(), scale=stats.sem(numbers)
    )
    mean, half = interval(numbers)
    assert mean == pytest.approx(numbers.mean())
    assert half == pytest.approx((high - low) / 2, rel=4e-3)


def test_one_value_has_a_mean_alone():
    mean, half = interval([3])
    assert mean == 3 and math.isnan(half)


def test_values_that_are_all_equal_have_an_interval_of_no_width():
    assert interval([2.0, 2.0, 2.0]) == (2, 0)


@pytest.mark.parametrize(
    "mean, half, words",
    [
        (0.21, 0.14, "0.21 ± 0.14"),
        (3.4908, 0.0823, "3.491 ± 0.082"),
        (-1e-6, 0.14, "0.00 ± 0.14"),
        (1234.6, 87.6, "1235 ± 88"),
        (2.5, 0.0, "2.5"),
        (2.5, NAN, "2.5"),
        (1234.6, NAN, "1,235"),
    ],
)
def test_mean_and_interval_have_the_same_decimals(mean, half, words):
    assert str(_Bar(0, np.array([mean]), mean, half)) == words


@pytest.mark.parametrize("data", [RATES, ERRORS], ids=["series", "seeds"])
def test_a_figure_has_the_common_frame_and_takes_axes(data):
    ax = plot_bars(data, ylabel="y", title="a title")
    assert ax.figure.get_figwidth() == figure.WIDTH
    assert ax.alt_text.startswith("a title") and title(ax) == "a title"
    _, given = matplotlib.pyplot.subplots()
    assert plot_bars(data, ylabel="y", ax=given) is given
