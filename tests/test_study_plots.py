"""Figures of a study of batch sizes, read through their artists."""

import re

import matplotlib
import numpy as np
import pytest

from course_lib.errors import UsageError
from course_lib.plots import figure, trainings
from course_lib.studies.study import Study
from tests.figures import close_figures, no_warnings, texts, title  # noqa: F401

# two seeds; 64 images take fewer steps at the rate 1, and 128 as many as 64
STUDY = Study(
    ("val_error", 0.05),
    (0.25, 0.5, 1.0),
    {
        16: [[300, 500], [450, 550], [None, None]],
        32: [[400, 400], [200, 200], [None, 190]],
        64: [[None, 900], [180, 200], [150, 170]],
        128: [[800, 900], [200, 220], [160, 160]],
    },
    where="measured on a table",
)
RATES = {
    "1 rank": {2: [180, 200, 900], 4: [400], 8: [800], 16: [810], 32: [820]},
    "2 ranks": {2: [50, 100], 4: [200], 8: [400], 16: [800], 32: [1600]},
}


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def line(ax, label):
    (found,) = [line for line in ax.lines if line.get_label() == label]
    return found


def points(ax, label):
    return [tuple(point) for point in line(ax, label).get_xydata()]


def ticks(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


def shares(ax):
    """The percentages that a title tells."""
    return re.findall(r"\d+ %", title(ax))


def edges(ax, number=0):
    """(x, least, most) along a shaded band."""
    found = {}
    for x, y in ax.collections[number].get_paths()[0].vertices:
        found.setdefault(x, []).append(y)
    return [(x, min(found[x]), max(found[x])) for x in sorted(found)]


# --- images per second


def test_throughput_shows_medians_with_a_band_from_slowest_to_fastest():
    ax = trainings.plot_throughput(RATES)
    expected = [(2, 200), (4, 400), (8, 800), (16, 810), (32, 820)]
    assert points(ax, "1 rank") == expected
    assert edges(ax)[:2] == [(2, 180, 900), (4, 400, 400)]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == (
        "batch size (images)",
        "images per second",
    )


def test_the_ideal_of_throughput_goes_on_as_the_smallest_batch_begins():
    first, last = points(trainings.plot_throughput(RATES), "ideal")
    assert first == (2, 200)
    assert last[1] / last[0] == pytest.approx(100)
    assert last[1] == pytest.approx(1.5 * 1600)


def test_the_title_of_throughput_says_from_where_on_it_is_flat():
    ax = trainings.plot_throughput(RATES, source="here")
    flat = "More images per second, then flat: 1 rank from 8 and 2 ranks from 32 on"
    assert title(ax).replace("\n", " ") == flat
    assert "2 ranks: 2: 75, 4: 200, 8: 400, 16: 800 and 32: 1,600" in ax.alt_text
    assert legend(ax) == ["1 rank", "2 ranks", "ideal"]
    assert "here" in texts(ax)


def test_the_sizes_themselves_are_the_ticks_every_second_one_if_there_are_many():
    assert ticks(trainings.plot_throughput(RATES)) == ["2", "4", "8", "16", "32"]
    many = {"1 rank": {2**k: [2**k] for k in range(1, 15)}}
    assert ticks(trainings.plot_throughput(many))[-2:] == ["2,048", "8,192"]


def test_the_order_of_sizes_does_not_matter():
    turned = {"1 rank": dict(reversed(RATES["1 rank"].items()))}
    ax = trainings.plot_throughput(turned)
    assert points(ax, "1 rank")[0] == (2, 200)


def test_throughput_of_one_batch_size_is_a_point():
    ax = trainings.plot_throughput({"1 rank": {8: [100.0]}})
    assert points(ax, "1 rank") == [(8, 100)]


@pytest.mark.parametrize("rates", [{}, {"1 rank": {}}])
def test_throughput_without_batch_sizes_is_refused(rates):
    with pytest.raises(UsageError, match="cannot draw images per second: found no"):
        trainings.plot_throughput(rates)


# --- steps to the target


def test_steps_are_those_of_the_best_rate_with_a_band_over_the_seeds():
    upper, lower = trainings.plot_steps(STUDY)
    assert points(upper, "mean of seeds") == [(16, 400), (32, 200), (64, 160)] + [
        (128, 160)
    ]
    assert edges(upper)[0] == (16, 300, 500)
    assert points(lower, "best rate") == [(16, 0.25), (32, 0.5), (64, 1), (128, 1)]
    assert upper.get_ylabel() == "steps to the target"
    assert (lower.get_xlabel(), lower.get_ylabel()) == (
        "batch size (images)",
        "best rate",
    )


def test_perfect_scaling_halves_the_steps_with_each_doubling():
    upper, _ = trainings.plot_steps(STUDY)
    (size, steps), (last, least) = points(upper, "perfect scaling")
    assert (size, steps) == (16, 400)
    assert last * least == pytest.approx(16 * 400)
    assert least == pytest.approx(0.7 * 160)


def test_the_rules_begin_at_the_smallest_batch_and_stay_in_the_picture():
    _, lower = trainings.plot_steps(STUDY)
    assert points(lower, "linear rule") == [(16, 0.25), (32, 0.5), (64, 1), (128, 2)]
    root = [0.25 * 2 ** (k / 2) for k in range(4)]
    np.testing.assert_allclose(line(lower, "square-root rule").get_ydata(), root)
    assert {"linear rule", "square-root rule"} <= {*texts(lower)}


def test_a_rule_that_leaves_the_picture_ends_there():
    steps = {size: [[100]] for size in (16, 32, 64, 128, 256)}
    _, lower = trainings.plot_steps(Study(("val_error", 0.1), (0.5,), steps))
    assert points(lower, "linear rule") == [(16, 0.5), (32, 1)]
    assert len(points(lower, "square-root rule")) == 3


def test_the_title_says_what_a_doubling_saves_at_either_end():
    upper, lower = trainings.plot_steps(STUDY)
    assert shares(upper) == ["50 %", "0 %"]
    assert "16: 400 steps, rate 0.25; 32: 200 steps, rate 0.5" in upper.alt_text
    assert "measured on a table" in texts(lower)


def test_a_doubling_is_told_also_of_a_study_in_larger_steps():
    steps = {4: [[1600]], 64: [[100]], 1024: [[25]]}
    upper, _ = trainings.plot_steps(Study(("val_error", 0.1), (0.5,), steps))
    assert shares(upper) == ["50 %", "29 %"]


def test_a_fit_is_a_curve_through_twice_the_least_at_its_knee():
    upper, lower = trainings.plot_steps(STUDY, fit=(100, 48))
    x, y = line(upper, "fit").get_data()
    np.testing.assert_allclose(y, 100 * (1 + 48 / x))
    assert (x[0], x[-1]) == pytest.approx((16, 128))
    assert points(upper, "knee") == [(48, 200)]
    assert "knee 48" in texts(upper)
    assert "at least 100 steps and its knee at 48" in upper.alt_text


def test_another_study_is_drawn_as_crosses_in_both_panels():
    live = Study(STUDY.target, (0.5,), {16: [[440, 460]], 64: [[None, 1]], 128: [[7]]})
    upper, lower = trainings.plot_steps(STUDY, live=live)
    assert points(upper, "run here") == [(16, 450), (128, 7)]
    assert points(lower, "live") == [(16, 0.5), (128, 0.5)]
    assert line(upper, "run here").get_linestyle() == "None"
    assert legend(upper) == ["mean of seeds", "perfect scaling", "run here"]


def test_a_batch_size_that_a_seed_never_brought_to_the_target_is_left_out():
    steps = {16: [[400]], 32: [[None]], 64: [[100]]}
    upper, _ = trainings.plot_steps(Study(("val_error", 0.1), (0.5,), steps))
    assert points(upper, "mean of seeds") == [(16, 400), (64, 100)]


def test_fewer_than_two_batch_sizes_make_no_curve():
    steps = {16: [[400]], 32: [[None]]}
    with pytest.raises(UsageError, match="found 1 batch sizes that reached the target"):
        trainings.plot_steps(Study(("val_error", 0.1), (0.5,), steps))


# --- cost and time


POINTS = {16: (10, 40.0), 32: (10, 20.0), 64: (16, 16.0), 128: (32, 16.0)}


def filled(ax):
    """The batch sizes that are drawn as filled points."""
    places = {place: size for size, place in POINTS.items()}
    return {
        places[tuple(one.get_xydata()[0])]
        for one in ax.lines
        if one.get_marker() == "o"
        and one.get_markerfacecolor() not in ("white", "none")
    }


def plot_pareto(points=POINTS, **options):
    return trainings.plot_pareto(
        points, xlabel="cost (GPU hours)", ylabel="time (days)", **options
    )


def test_a_point_that_no_other_beats_in_both_is_on_the_front():
    ax = plot_pareto()
    assert filled(ax) == {32, 64}
    (front,) = [one for one in ax.lines if one.get_marker() == "None"]
    np.testing.assert_allclose(front.get_xydata(), [(10, 20), (16, 16)])


def test_two_equal_points_are_both_on_the_front():
    ax = trainings.plot_pareto({1: (1, 1), 2: (1, 1)}, xlabel="x", ylabel="y")
    found = [one.get_markerfacecolor() for one in ax.lines if one.get_marker() == "o"]
    assert len(found) == 2 and "white" not in found


def test_each_point_has_the_name_of_its_batch_size_and_axes_have_units():
    ax = plot_pareto(POINTS | {2048: (99, 99)})
    assert {"16", "32", "64", "128", "2,048"} <= {*texts(ax)}
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("cost (GPU hours)", "time (days)")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_the_chosen_batch_size_has_a_ring_and_is_told():
    ax = plot_pareto(chosen=64)
    assert points(ax, "chosen") == [(16, 16)]
    assert line(ax, "chosen").get_markerfacecolor() == "none"
    assert title(ax) == "Batch size 64 costs least at these prices"


def test_without_a_choice_the_title_says_how_to_read_it():
    ax = plot_pareto(source="a model")
    assert "left is cheaper" in title(ax)
    assert "16: 10, 40; 32: 10, 20" in ax.alt_text
    assert "a model" in texts(ax)


# --- all


@pytest.mark.parametrize(
    "plot",
    [lambda **ax: trainings.plot_throughput(RATES, **ax), plot_pareto],
    ids=["throughput", "pareto"],
)
def test_a_figure_has_the_common_frame_and_takes_axes(plot):
    ax = plot()
    assert ax.figure.get_figwidth() == figure.WIDTH
    assert ax.alt_text.startswith(title(ax).replace("\n", " "))
    _, given = matplotlib.pyplot.subplots()
    assert plot(ax=given) is given


def test_steps_take_two_axes_and_have_the_common_frame():
    axes = trainings.plot_steps(STUDY)
    assert axes.shape == (2,)
    assert axes[0].figure.get_figwidth() == figure.WIDTH
    _, given = matplotlib.pyplot.subplots(2)
    assert [*trainings.plot_steps(STUDY, ax=given)] == [*given]
