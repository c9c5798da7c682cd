"""Figures of curves, read through their artists."""

import math

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from course_lib import colors
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.plots.curves import plot_curves
from tests.figures import close_figures, no_warnings, texts, title  # noqa: F401

NAN = math.nan
STEPS = [1, 2, 4]
TWO_SEEDS = torch.tensor([[1.0, 3.0], [0.5, 1.5], [0.2, 0.4]])
WORDS = {"xlabel": "step", "ylabel": "loss"}
RATES = {
    "1 rank": {2: [180, 200, 900], 4: [400], 8: [800], 16: [810], 32: [820]},
    "2 ranks": {2: [50, 100], 4: [200], 8: [400], 16: [800], 32: [1600]},
}


def band(ax):
    """(x, least, most) along the first shaded band."""
    corners = ax.collections[0].get_paths()[0].vertices
    edges = {}
    for x, y in corners:
        edges.setdefault(x, []).append(y)
    return [(x, min(edges[x]), max(edges[x])) for x in sorted(edges)]


def line(ax, label):
    (curve,) = [line for line in ax.lines if line.get_label() == label]
    return curve


def points(ax, label):
    return [tuple(point) for point in line(ax, label).get_xydata()]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels() if label.get_text()]


def in_sight(ax):
    """The labels along y that are in the picture."""
    low, high = ax.get_ylim()
    labels = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
    return [label.get_text() for at, label in labels if low <= at <= high]


# --- curves


def test_a_line_is_the_mean_of_the_seeds_and_the_band_holds_all():
    ax = plot_curves({"loss": (STEPS, TWO_SEEDS)}, **WORDS)
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_xydata(), [(1, 2), (2, 1), (4, 0.3)])
    np.testing.assert_allclose(band(ax), [(1, 1, 3), (2, 0.5, 1.5), (4, 0.2, 0.4)])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("step", "loss")


def test_one_value_per_step_is_a_line_whose_band_has_no_width():
    ax = plot_curves({"loss": (STEPS, [3, 2, 1])}, **WORDS)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [3, 2, 1])
    assert all(low == high for _, low, high in band(ax))


def test_a_label_that_begins_with_train_is_dashed_in_the_colour_before_it():
    names = ["batch 8", "train 8", "batch 64", "train 64"]
    ax = plot_curves(dict.fromkeys(names, (STEPS, TWO_SEEDS)), **WORDS)
    assert [line.get_linestyle() for line in ax.lines] == ["-", "--", "-", "--"]
    expected = [colors.rank_color(n) for n in (0, 0, 1, 1)]
    assert [to_hex(line.get_color()) for line in ax.lines] == expected
    assert len(ax.collections) == 2
    assert [t.get_text() for t in ax.get_legend().get_texts()] == names


def test_a_training_curve_alone_is_a_curve_as_any_other():
    ax = plot_curves({"training": (STEPS, TWO_SEEDS)}, **WORDS)
    assert ax.lines[0].get_linestyle() == "-" and len(ax.collections) == 1


def test_seeds_that_have_ended_are_left_out_of_mean_and_band():
    values = [[1.0, 3.0], [0.5, NAN], [NAN, NAN]]
    ax = plot_curves({"loss": (STEPS, values)}, **WORDS)
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [(1, 2), (2, 0.5)])
    np.testing.assert_allclose(band(ax), [(1, 1, 3), (2, 0.5, 0.5)])
    assert "loss: 2 at first, 0.5 at the end" in ax.alt_text


def test_a_curve_without_any_number_is_refused_by_name():
    curves = {"good": (STEPS, TWO_SEEDS), "train_loss": (STEPS, TWO_SEEDS * NAN)}
    with pytest.raises(UsageError, match="cannot draw 'train_loss': none .* a number"):
        plot_curves(curves, **WORDS)


def test_the_alt_text_of_curves_tells_where_each_begins_and_ends():
    curves = {"a": (STEPS, TWO_SEEDS), "b": (STEPS, [1, 2, 30])}
    ax = plot_curves(curves, **WORDS, title="It falls", source="here")
    assert title(ax) == "It falls"
    told = "a: 2 at first, 0.3 at the end; b: 1 at first, 30 at the end"
    assert ax.alt_text == f"It falls. {told}. here."
    assert "here" in texts(ax)


def test_a_curve_without_a_label_has_no_legend():
    ax = plot_curves({"": (STEPS, [3, 2, 1])}, **WORDS)
    assert ax.get_legend() is None
    assert ax.alt_text == "3 at first, 1 at the end. measured."


# --- values by x, of which there may be few


def test_values_by_x_may_differ_in_number_and_their_median_can_be_drawn():
    ax = plot_curves(RATES, estimator="median", **WORDS)
    expected = [(2, 200), (4, 400), (8, 800), (16, 810), (32, 820)]
    assert points(ax, "1 rank") == expected
    assert band(ax)[:2] == [(2, 180, 900), (4, 400, 400)]
    assert legend(ax) == ["1 rank", "2 ranks"]


def test_the_order_of_x_does_not_matter_in_a_dict():
    turned = {"1 rank": dict(reversed(RATES["1 rank"].items()))}
    ax = plot_curves(turned, estimator="median", **WORDS)
    assert points(ax, "1 rank")[0] == (2, 200)


def test_one_value_alone_is_a_point():
    ax = plot_curves({"1 rank": {8: [100.0]}}, log="xy", **WORDS)
    assert points(ax, "1 rank") == [(8, 100)]
    assert line(ax, "1 rank").get_marker() == "o"


def test_few_values_are_marked_by_a_shape_for_each_curve():
    ax = plot_curves(RATES, **WORDS)
    assert [curve.get_marker() for curve in ax.lines] == ["o", "s"]
    ax = plot_curves({"many": (range(50), range(50))}, **WORDS)
    assert ax.lines[0].get_marker() == "None"


def test_only_a_mean_or_a_median_can_be_drawn():
    with pytest.raises(UsageError, match="'max' of values: expected 'mean' or"):
        plot_curves(RATES, estimator="max", **WORDS)


@pytest.mark.parametrize("curves", [{}, {"1 rank": {}}])
def test_curves_without_values_are_refused(curves):
    with pytest.raises(UsageError, match="cannot draw .*: (found none|none of its)"):
        plot_curves(curves, **WORDS)


# --- logarithmic axes


def test_axes_are_logarithmic_on_wish():
    for log in ("", "x", "y", "xy"):
        ax = plot_curves(RATES, log=log, **WORDS)
        assert (ax.get_xscale() == "log", ax.get_yscale() == "log") == (
            "x" in log,
            "y" in log,
        )


def test_whole_numbers_are_the_ticks_every_second_one_if_there_are_many():
    ax = plot_curves(RATES, log="xy", **WORDS)
    assert ticks(ax.xaxis) == ["2", "4", "8", "16", "32"]
    many = {"1 rank": {2**k: [2**k] for k in range(1, 15)}}
    ax = plot_curves(many, log="xy", **WORDS)
    assert ticks(ax.xaxis)[-2:] == ["2,048", "8,192"]


def test_ticks_that_are_no_whole_numbers_are_round():
    curve = {"front": {12.5: 40.0, 31.7: 8.0}}
    assert "20" in ticks(plot_curves(curve, log="xy", **WORDS).xaxis)


@pytest.mark.parametrize(
    ("values", "labels"),
    [([1, 3.4], ["1", "2"]), ([0.002, 0.09], ["0.002", "0.005"]), ([5, 9e4], ["10"])],
)
def test_a_logarithmic_axis_has_plain_numbers(values, labels):
    ax = plot_curves({"y": ([1, 2], values)}, log="xy", **WORDS)
    assert in_sight(ax)[: len(labels)] == labels


# --- references and points


def test_a_reference_is_grey_and_dashed_and_has_no_band():
    ideal = {"ideal": ([2, 8], [100, 400]), "rule": ([2, 8], [100, 200])}
    ax = plot_curves(RATES, reference=ideal, **WORDS)
    assert points(ax, "ideal") == [(2, 100), (8, 400)]
    assert line(ax, "ideal").get_color() == "#666666"
    styles = [line(ax, label).get_linestyle() for label in ideal]
    assert len({*styles, "-"}) == 3
    assert len(ax.collections) == len(RATES)
    assert legend(ax) == ["1 rank", "2 ranks", "ideal", "rule"]


def test_points_are_marks_without_a_line_at_the_mean_of_their_values():
    live = {"run here": {16: [440, 460], 128: 7}}
    ax = plot_curves(RATES, points=live, log="xy", **WORDS)
    assert points(ax, "run here") == [(16, 450), (128, 7)]
    assert line(ax, "run here").get_linestyle() == "None"
    assert "run here: 450 at 16 and 7 at 128" in ax.alt_text


def test_several_kinds_of_points_have_their_own_marks():
    marks = {"beaten": {4: 9}, "chosen": {2: 5}}
    ax = plot_curves(RATES, points=marks, **WORDS)
    cross, ring = (line(ax, label) for label in marks)
    assert (cross.get_marker(), ring.get_marker()) == ("x", "o")
    assert ring.get_markerfacecolor() == "none"


# --- all


def test_a_figure_has_the_common_frame_and_takes_axes():
    ax = plot_curves(RATES, title="a title", **WORDS)
    assert ax.figure.get_figwidth() == figure.WIDTH
    assert ax.alt_text.startswith("a title")
    _, given = matplotlib.pyplot.subplots()
    assert plot_curves(RATES, ax=given, **WORDS) is given


def test_bytes_have_their_units_and_no_label_touches_the_next():
    curve = {"a": {2**power: 1.0 + power for power in range(2, 27)}}
    ax = plot_curves(curve, **WORDS | {"xlabel": "bytes"}, log="xy")
    assert {"4 B", "1.02 kB"} <= set(ticks(ax.xaxis))
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert len(boxes) > 5
    assert all(one.x1 < other.x0 for one, other in zip(boxes, boxes[1:]))
