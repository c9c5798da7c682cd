"""Figures of many trainings, read through their artists."""

import math

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from course_lib import colors
from course_lib.errors import UsageError
from course_lib.plots import curves as curve_plots
from course_lib.plots import figure
from tests.figures import close_figures, no_warnings, texts, title  # noqa: F401

NAN = math.nan
STEPS = [1, 2, 4]
TWO_SEEDS = torch.tensor([[1.0, 3.0], [0.5, 1.5], [0.2, 0.4]])
WORDS = {"xlabel": "step", "ylabel": "loss"}


def band(ax):
    """(x, least, most) along the first shaded band."""
    corners = ax.collections[0].get_paths()[0].vertices
    edges = {}
    for x, y in corners:
        edges.setdefault(x, []).append(y)
    return [(x, min(edges[x]), max(edges[x])) for x in sorted(edges)]


# --- curves


def test_a_line_is_the_mean_of_the_seeds_and_the_band_holds_all():
    ax = curve_plots.plot_curves({"loss": (STEPS, TWO_SEEDS)}, **WORDS)
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_xydata(), [(1, 2), (2, 1), (4, 0.3)])
    np.testing.assert_allclose(band(ax), [(1, 1, 3), (2, 0.5, 1.5), (4, 0.2, 0.4)])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("step", "loss")


def test_one_value_per_step_is_a_line_whose_band_has_no_width():
    ax = curve_plots.plot_curves({"loss": (STEPS, [3, 2, 1])}, **WORDS)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [3, 2, 1])
    assert all(low == high for _, low, high in band(ax))


def test_a_label_that_begins_with_train_is_dashed_in_the_colour_before_it():
    names = ["batch 8", "train 8", "batch 64", "train 64"]
    ax = curve_plots.plot_curves(dict.fromkeys(names, (STEPS, TWO_SEEDS)), **WORDS)
    assert [line.get_linestyle() for line in ax.lines] == ["-", "--", "-", "--"]
    expected = [colors.rank_color(n) for n in (0, 0, 1, 1)]
    assert [to_hex(line.get_color()) for line in ax.lines] == expected
    assert len(ax.collections) == 2
    assert [t.get_text() for t in ax.get_legend().get_texts()] == names


def test_a_training_curve_alone_is_a_curve_as_any_other():
    ax = curve_plots.plot_curves({"training": (STEPS, TWO_SEEDS)}, **WORDS)
    assert ax.lines[0].get_linestyle() == "-" and len(ax.collections) == 1


def test_seeds_that_have_ended_are_left_out_of_mean_and_band():
    values = [[1.0, 3.0], [0.5, NAN], [NAN, NAN]]
    ax = curve_plots.plot_curves({"loss": (STEPS, values)}, **WORDS)
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [(1, 2), (2, 0.5)])
    np.testing.assert_allclose(band(ax), [(1, 1, 3), (2, 0.5, 0.5)])
    assert "loss: 2 at first, 0.5 at the end" in ax.alt_text


def test_a_curve_without_any_number_is_refused_by_name():
    curves = {"good": (STEPS, TWO_SEEDS), "train_loss": (STEPS, TWO_SEEDS * NAN)}
    with pytest.raises(UsageError, match="cannot draw 'train_loss': none .* a number"):
        curve_plots.plot_curves(curves, **WORDS)


def test_the_alt_text_of_curves_tells_where_each_begins_and_ends():
    curves = {"a": (STEPS, TWO_SEEDS), "b": (STEPS, [1, 2, 30])}
    ax = curve_plots.plot_curves(curves, **WORDS, title="It falls", source="here")
    assert title(ax) == "It falls"
    told = "a: 2 at first, 0.3 at the end; b: 1 at first, 30 at the end"
    assert ax.alt_text == f"It falls. {told}. here."
    assert "here" in texts(ax)


# --- spreads


def test_each_seed_is_a_point_and_the_mean_has_its_interval():
    ax = curve_plots.plot_spread({"a": [1, 2, 3], "b": [4, 4, 4]}, xlabel="error (%)")
    points = {line.get_label(): line.get_xdata() for line in ax.lines}
    np.testing.assert_allclose(points["a"], [1, 2, 3])
    (first, _, (bar,)), (second, _, _) = ax.containers
    np.testing.assert_allclose(first.get_xydata(), [(2, 0)])
    np.testing.assert_allclose(second.get_xydata(), [(4, 1)])
    np.testing.assert_allclose(
        bar.get_segments()[0], [(2 - 2.484, 0), (2 + 2.484, 0)], atol=0.01
    )
    assert ax.get_xlabel() == "error (%)"


def test_a_spread_has_a_row_and_a_colour_for_each_group_the_first_on_top():
    ax = curve_plots.plot_spread({"a": [1, 2], "b": [3, 4]}, xlabel="x")
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    assert ax.yaxis_inverted()
    for row, container in enumerate(ax.containers):
        assert to_hex(container[0].get_color()) == colors.rank_color(row)


def test_points_of_a_group_lie_side_by_side_and_stay_in_their_row():
    ax = curve_plots.plot_spread({"a": [1] * 9, "b": [1] * 9}, xlabel="x")
    for row, name in enumerate("ab"):
        (line,) = [line for line in ax.lines if line.get_label() == name]
        places = line.get_ydata()
        assert len({*places}) == 9
        assert abs(places - row).max() < 0.5


def test_a_spread_tells_mean_and_interval_in_words():
    ax = curve_plots.plot_spread({"a": torch.tensor([1.0, 2, 3])}, xlabel="x")
    assert "2.0 ± 2.5" in texts(ax)
    assert "a: 2.0 ± 2.5 (3 seeds)" in ax.alt_text


def test_one_seed_alone_has_no_interval_and_none_is_told():
    ax = curve_plots.plot_spread({"a": [1.5]}, xlabel="x", source="")
    assert [text for text in texts(ax) if text] == ["1.5"]
    assert "a: 1.5 (1 seed)" in ax.alt_text


@pytest.mark.parametrize("count", [2, 3, 8, 12, 24, 26, 27, 40, 100, 1000])
def test_an_interval_is_that_of_students_t(count):
    from scipy import stats

    values = np.random.default_rng(count).normal(5, 2, count)
    low, high = stats.t.interval(
        0.95, count - 1, loc=values.mean(), scale=stats.sem(values)
    )
    mean, half = curve_plots.interval(values)
    assert mean == pytest.approx(values.mean())
    assert half == pytest.approx((high - low) / 2, rel=4e-3)


def test_one_value_has_a_mean_alone():
    mean, half = curve_plots.interval([3])
    assert mean == 3 and math.isnan(half)


def test_values_that_are_all_equal_have_an_interval_of_no_width():
    assert curve_plots.interval([2.0, 2.0, 2.0]) == (2, 0)


DRAWN = {
    curve_plots.plot_curves: ({"a": (STEPS, TWO_SEEDS)}, WORDS),
    curve_plots.plot_spread: ({"a": [1, 2, 3]}, {"xlabel": "x"}),
}


@pytest.mark.parametrize("plot", DRAWN, ids=lambda plot: plot.__name__)
def test_a_figure_has_the_common_frame_and_takes_axes(plot):
    data, words = DRAWN[plot]
    ax = plot(data, title="a title", **words)
    assert ax.figure.get_figwidth() == figure.WIDTH
    assert ax.alt_text.startswith("a title")
    _, given = matplotlib.pyplot.subplots()
    assert plot(data, ax=given, **words) is given


@pytest.mark.parametrize(
    "mean, half, said",
    [
        (0.21, 0.14, "0.21 ± 0.14"),
        (3.4908, 0.0823, "3.491 ± 0.082"),
        (-1e-6, 0.14, "0.00 ± 0.14"),
        (1234.6, 87.6, "1235 ± 88"),
        (2.5, 0.0, "2.5"),
        (2.5, NAN, "2.5"),
    ],
)
def test_mean_and_interval_have_the_same_decimals(mean, half, said):
    assert curve_plots._said(mean, half) == said
