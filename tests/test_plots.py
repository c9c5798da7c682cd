"""Figures, read through their artists; colours, by sight and by contrast."""

import itertools

import matplotlib
import numpy as np
import pytest
import torch

from course_lib import colors
from course_lib.accelerators.dtensors import DTensorPart
from course_lib.plots import figure as frame
from course_lib.plots.bars import plot_bars
from course_lib.plots.curves import plot_curves
from course_lib.plots.images import plot_images
from course_lib.plots.processes import plot_processes
from course_lib.plots.sharding import plot_sharding
from course_lib.plots.timeline import plot_timeline
from course_lib.tracing.events import Event, Trace

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


def ms(rank, kind, name, start, stop):
    """An event with its times in milliseconds."""
    return Event(rank, kind, name, start / 1e3, stop / 1e3)


def trace(*events):
    return Trace(events, "measured: 2 ranks, gloo, CPU")


DDP = trace(
    ms(0, "compute", "forward", 0, 4),
    ms(0, "compute", "backward", 4, 8),
    ms(0, "wait", "all_reduce", 6, 7),
    ms(0, "communicate", "all_reduce", 7, 9),
    ms(0, "compute", "optimizer step", 9, 10),
    ms(1, "compute", "forward", 0, 5),
    ms(1, "communicate", "all_reduce", 7, 9),
)


def bars(ax):
    """Left, right, top, bottom and colour of every bar."""
    (collection,) = ax.collections
    boxes = [path.get_extents() for path in collection.get_paths()]
    shades = map(matplotlib.colors.to_hex, collection.get_facecolors())
    return [
        (box.x0, box.x1, box.y0, box.y1, shade)
        for box, shade in zip(boxes, shades, strict=True)
    ]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def title(ax):
    return ax.get_title(loc="left")


# --- colours


def seen_without_green(color):
    """Linear RGB as a deuteranope sees it (Machado, Oliveira, Fernandes 2009)."""
    matrix = [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]
    return np.array(matrix) @ (matplotlib.colors.to_rgb(color) ** np.float64(2.2))


@pytest.mark.parametrize(
    "table", [colors.ROLE_COLORS.values(), map(colors.rank_color, range(8))]
)
def test_colours_differ_for_a_reader_who_does_not_see_green(table):
    pairs = itertools.combinations(map(seen_without_green, table), 2)
    distances = [np.abs(a - b).max() for a, b in pairs]
    assert len(distances) in (15, 28) and min(distances) > 0.1


def test_8_ranks_have_8_colours_and_then_they_repeat():
    assert len({colors.rank_color(rank) for rank in range(8)}) == 8
    assert colors.rank_color(24) == colors.rank_color(8) == colors.rank_color(0)


def test_a_device_has_the_colour_of_its_index():
    assert colors.rank_color("vgpu:3") == colors.rank_color(3) != colors.rank_color(0)
    assert colors.rank_color("cpu") == colors.rank_color(0)


def test_text_on_every_colour_has_a_contrast_of_4_5_at_least():
    grey = [f"#{level:02x}{level:02x}{level:02x}" for level in range(256)]
    ranks = [colors.rank_color(rank) for rank in range(8)]
    for background in [*grey, *ranks, *colors.ROLE_COLORS.values()]:
        light = colors.luminance(background)
        text = colors.luminance(colors.text_color(background))
        high, low = max(light, text), min(light, text)
        assert (high + 0.05) / (low + 0.05) >= 4.5


@pytest.mark.parametrize("rank", [-1, 1.5, None])
def test_a_rank_below_zero_or_no_number_has_no_colour(rank):
    with pytest.raises(ValueError, match="cannot colour rank"):
        colors.rank_color(rank)


# --- timeline


def test_every_event_is_one_bar_in_its_role_colour():
    found = sorted(shade for *_, shade in bars(plot_timeline(DDP)))
    roles = ["forward"] * 2 + ["backward", "optimizer", "wait"] + ["communicate"] * 2
    assert found == sorted(colors.ROLE_COLORS[role] for role in roles)


def test_rank_0_is_on_top_and_every_rank_has_a_row():
    ax = plot_timeline(trace(*(ms(r, "compute", "x", 0, 1) for r in (2, 0, 10))))
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["rank 0", "rank 2", "rank 10"]
    assert ax.yaxis_inverted() and list(ax.get_yticks()) == [0, 1, 2]


def test_compute_lies_above_communication_in_the_row_of_its_rank():
    for _, _, top, bottom, shade in bars(plot_timeline(DDP)):
        row = 0 if bottom < 0.5 else 1
        lower = shade in (colors.ROLE_COLORS["communicate"], colors.ROLE_COLORS["wait"])
        expected = (row, row + 0.4) if lower else (row - 0.4, row)
        assert (top, bottom) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seconds", "unit", "right"), [(2, "s", 2), (2e-3, "ms", 2), (2e-6, "µs", 2)]
)
def test_the_time_axis_takes_the_unit_that_fits_and_starts_at_the_first_event(
    seconds, unit, right
):
    ax = plot_timeline(trace(Event(0, "compute", "x", 5, 5 + seconds)))
    assert ax.get_xlabel() == f"time ({unit})"
    assert bars(ax)[0][:2] == pytest.approx((0, right))


def test_the_legend_names_only_the_roles_that_occur():
    ax = plot_timeline(trace(ms(0, "compute", "forward", 0, 1)))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["forward"]
    ax = plot_timeline(DDP)
    assert len(ax.get_legend().get_texts()) == 5


def test_the_title_says_who_computes_what_is_hidden_and_who_waits():
    first, second = title(plot_timeline(DDP)).split("\n")
    assert first == "2 ranks, 10 ms: rank 0 computes 90 % of the time, rank 1 50 %"
    assert second == "40 % of communication is hidden by compute"
    # who waits for a message has nothing under way that could be hidden
    more = [ms(0, "wait", "recv", 0, 9), ms(1, "wait", "send", 0, 5)]
    assert "40 % of communication is hidden" in title(plot_timeline(trace(*DDP, *more)))
    late = trace(
        ms(0, "compute", "forward", 0, 2),
        ms(0, "wait", "barrier", 2, 10),
        ms(1, "compute", "forward", 0, 10),
    )
    assert title(plot_timeline(late)).endswith("rank 0 waits 80 %")


def test_many_ranks_share_one_sentence_of_the_title():
    ax = plot_timeline(trace(*(ms(r, "compute", "x", 0, r + 1) for r in range(4))))
    assert title(ax) == "4 ranks, 4 ms: each computes 25 to 100 % of the time"


def test_who_computes_a_little_is_not_said_to_compute_nothing():
    little = [ms(r, "compute", "x", r, r + 0.001) for r in range(3)]
    ax = plot_timeline(trace(*little))
    assert title(ax) == "3 ranks, 2 ms: each computes less than 1 % of the time"


def test_devices_stand_by_their_own_names():
    events = (ms(f"vgpu:{i}", "compute", "mm", i, i + 1) for i in range(2))
    ax = plot_timeline(trace(*events))
    assert [t.get_text() for t in ax.get_yticklabels()] == ["vgpu:0", "vgpu:1"]
    assert title(ax).startswith("2 devices, 2 ms")


def test_processes_that_are_no_ranks_have_their_own_plural():
    events = (ms(f"process {i}", "compute", "0 → 1", 0, 1) for i in range(3))
    assert title(plot_timeline(trace(*events))).startswith("3 processes, 1 ms: each")


def test_a_name_is_written_only_into_a_bar_that_it_fits():
    ax = plot_timeline(
        trace(ms(0, "compute", "forward", 0, 90), ms(0, "compute", "backward", 90, 92))
    )
    assert "forward" in texts(ax) and "backward" not in texts(ax)
    ax.figure.draw_without_rendering()
    (label,) = (text for text in ax.texts if text.get_text() == "forward")
    left, right = ax.transData.transform([(0, 0), (90, 0)])[:, 0]
    box = label.get_window_extent()
    assert left < box.x0 and box.x1 < right


@pytest.mark.parametrize("stop", [0.5, 0.500001])
def test_an_event_of_no_length_is_still_seen(stop):
    ax = plot_timeline(
        trace(
            Event(0, "compute", "forward", 0, 1), Event(0, "wait", "barrier", 0.5, stop)
        )
    )
    left, right = min((left, right) for left, right, *_ in bars(ax) if left > 0)
    ax.figure.draw_without_rendering()
    pixels = np.ptp(ax.transData.transform([(left, 0), (right, 0)])[:, 0])
    assert pixels * 72 / ax.figure.dpi == pytest.approx(1.5, rel=0.01)


def test_widened_bars_leave_most_of_the_gaps_of_a_crowd_open():
    crowd = trace(*(ms(0, "compute", "x", 10 * i, 10 * i + 1) for i in range(5000)))
    found = sorted(bars(plot_timeline(crowd)))
    gaps = [b[0] - a[1] for a, b in itertools.pairwise(found)]
    assert len(found) == 5000 and min(gaps) > 0.005  # of the 0.009 s that were free


def test_a_short_event_lies_on_top_of_a_long_one():
    ax = plot_timeline(
        trace(ms(0, "compute", "forward", 2, 3), ms(0, "compute", "step", 0, 9))
    )
    widths = [right - left for left, right, *_ in bars(ax)]
    assert widths == pytest.approx([9, 1])


def test_a_wait_lies_below_the_communication_that_goes_on_meanwhile():
    ax = plot_timeline(
        trace(ms(0, "communicate", "send", 0, 9), ms(0, "wait", "all_reduce", 2, 5))
    )
    shades = [shade for *_, shade in bars(ax)]
    assert shades == [colors.ROLE_COLORS["wait"], colors.ROLE_COLORS["communicate"]]


def test_names_are_left_out_where_bars_of_a_lane_overlap():
    apart = [ms(0, "communicate", f"send {i}", 30 * i, 30 * i + 30) for i in range(3)]
    assert {"send 0", "send 1", "send 2"} <= set(texts(plot_timeline(trace(*apart))))
    over = ms(0, "communicate", "send 3", 10, 40)
    found = set(texts(plot_timeline(trace(*apart, over))))
    assert "send 2" in found and not found & {"send 0", "send 1", "send 3"}


def test_a_launch_without_a_trace_is_told_what_was_forgotten():
    with pytest.raises(ValueError, match="launch with trace=True"):
        plot_timeline(None)


def test_an_empty_trace_is_refused_with_the_next_step():
    with pytest.raises(ValueError, match="holds no events: the ranks did nothing"):
        plot_timeline(trace())


def test_sixteen_ranks_make_a_higher_figure_of_the_same_width():
    sizes = [
        plot_timeline(
            trace(*(ms(r, "compute", "x", 0, 1) for r in range(count)))
        ).figure.get_size_inches()
        for count in (1, 4, 16)
    ]
    assert [width for width, _ in sizes] == [6.4] * 3
    assert sizes[0][1] < sizes[1][1] < sizes[2][1]


# --- every figure

# a vector on two ranks, as they bring it back
PARTS = [
    DTensorPart((4,), torch.ones(2), ("Shard(0)",), (2,), ("dp",), (((at, at + 2),),))
    for at in (0, 2)
]
EVERY = {
    "timeline": lambda ax=None: plot_timeline(DDP, ax=ax),
    "samples": lambda ax=None: plot_sharding([[0, 2], [1, 3]], ax=ax),
    "parts": lambda ax=None: plot_sharding(PARTS, ax=ax),
    "images": lambda ax=None: plot_images(torch.rand(4, 1, 8, 8), [1, 2, 3, 4], ax=ax),
    "curves": lambda ax=None: plot_curves(
        {"loss": {1: [2, 3], 10: [1, 2]}},
        **{"xlabel": "step", "ylabel": "loss", "title": "It falls", "log": "xy"},
        ax=ax,
    ),
    "bars": lambda ax=None: plot_bars(
        {"a": [1, 2], "b": [3, 4]}, ylabel="error", title="Two", ax=ax
    ),
    "processes": lambda ax=None: plot_processes(
        {"parent": {"own": [1, 2]}, "child": {"own": [3, 4]}}, ax=ax
    ),
}
every = pytest.mark.parametrize("draw", EVERY.values(), ids=EVERY)


@every
def test_a_figure_draws_on_the_given_axes_and_returns_them(draw):
    figure, ax = matplotlib.pyplot.subplots(figsize=(9, 3))
    assert draw(ax) is ax
    assert matplotlib.pyplot.get_fignums() == [figure.number]
    assert list(figure.get_size_inches()) == [9, 3]


@every
def test_a_figure_leaves_the_learners_style_alone_and_stays_white(draw):
    with matplotlib.pyplot.style.context("dark_background"):
        before = dict(matplotlib.rcParams)
        ax = draw()
        assert dict(matplotlib.rcParams) == before
        assert ax.figure.get_facecolor() == ax.get_facecolor() == (1, 1, 1, 1)
        ink = {matplotlib.colors.to_hex(ax._left_title.get_color())}
        assert ink == {"#000000"}


@every
def test_no_text_of_a_figure_is_smaller_than_10_points(draw):
    ax = draw()
    ax.figure.draw_without_rendering()
    found = ax.findobj(matplotlib.text.Text)
    sizes = [text.get_fontsize() for text in found if text.get_text()]
    assert len(sizes) > 3 and min(sizes) >= 10


@every
def test_a_figure_in_a_notebook_carries_its_title_as_alt_text(draw):
    from IPython.core.formatters import DisplayFormatter

    ax = draw()
    data, metadata = DisplayFormatter().format(ax.figure)
    start = title(ax).split("\n")[0].split(":")[0]
    assert f'<img alt="{start}' in data["text/html"]
    assert metadata["image/png"]["alt"].startswith(start)


def test_a_long_source_takes_two_lines_and_leaves_room_for_the_axes():
    source = "measured: 2 ranks on the CPU, one thread each; disturbed: rank 1 had no"
    ax = plot_timeline(Trace(DDP.events, f"{source} core for 37 % of its time"))
    ax.figure.draw_without_rendering()
    assert ax.get_window_extent().width > 0.8 * ax.figure.bbox.width


def test_quotes_in_a_source_do_not_break_the_alt_text():
    _, ax = matplotlib.pyplot.subplots()
    frame.finish(ax, 'a "b" <c>', source="d")
    page = ax.figure._repr_mimebundle_()[0]["text/html"]
    assert 'alt="a &quot;b&quot; &lt;c&gt;. d."' in page


@every
def test_a_figure_says_what_was_measured_or_computed(draw):
    assert any(t.startswith(("measured", "computed", "data")) for t in texts(draw()))


# --- sharding of samples


def held(ax):
    """The colour of every cell, None where it is white: one list per rank."""
    rows = [image.get_array()[0] for image in ax.images]
    shades = [["#" + bytes(pixel).hex() for pixel in row] for row in rows]
    return [[None if shade == "#ffffff" else shade for shade in row] for row in shades]


def test_three_ranks_of_an_interleaved_sampler_fill_a_staircase():
    rows = held(plot_sharding([list(range(r, 30, 3)) for r in range(3)]))
    for rank, row in enumerate(rows):
        assert {n for n, shade in enumerate(row) if shade} == set(range(rank, 30, 3))
        assert set(row) == {None, colors.rank_color(rank)}
    assert len(rows) == 3


def test_each_cell_carries_its_number_while_it_fits():
    ax = plot_sharding([list(range(r, 30, 3)) for r in range(3)])
    numbers = [
        (t.get_text(), *t.get_position()) for t in ax.texts if t.get_text()[0].isdigit()
    ]
    assert sorted(numbers) == sorted((str(n), n, n % 3) for n in range(30))
    ax = plot_sharding([list(range(r, 1797, 2)) for r in range(2)])
    assert texts(ax) == ["computed from the indices"]


def test_samples_held_more_than_once_are_marked_and_named():
    ax = plot_sharding([[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]])
    (marks,) = (line for line in ax.lines if line.get_marker() == "v")
    assert list(marks.get_xdata()) == [0, 1]
    assert title(ax).endswith("samples 0 and 1 are held more than once")
    assert ax.get_legend().get_texts()[0].get_text() == "held more than once"


def test_one_rank_that_holds_a_sample_twice_is_marked_too():
    assert "sample 1 is held more than once" in title(plot_sharding([[1, 1], [0]]))


def test_samples_that_no_rank_holds_are_grey_and_named():
    ax = plot_sharding([[0, 4], [1, 3]], num_samples=6)
    (marks,) = (line for line in ax.lines if line.get_marker() == "x")
    assert list(marks.get_xdata()) == [2, 5]
    assert title(ax).endswith("samples 2 and 5 are held by no rank")
    assert all(row[2] == row[5] == "#e0e0e0" for row in held(ax))


def test_ranks_that_all_hold_everything_are_called_not_sharded():
    ax = plot_sharding([range(12)] * 3)
    assert title(ax) == "Nothing is sharded: all 3 ranks hold all 12 samples"


def test_the_distributed_sampler_can_be_drawn_as_it_is():
    samplers = [
        torch.utils.data.DistributedSampler(range(1797), 4, rank, seed=3)
        for rank in range(4)
    ]
    ax = plot_sharding(samplers)
    first, second = title(ax).split("\n")
    assert first == "1,797 samples over 4 ranks: each rank holds 450"
    assert second.startswith("samples ") and second.count(",") == 1
    assert [sum(map(bool, row)) for row in held(ax)] == [450] * 4


def test_tensors_arrays_and_dicts_of_indices_are_accepted():
    ax = plot_sharding({0: torch.arange(0, 4), 1: np.arange(4, 6), "spare": ()})
    assert title(ax) == "6 samples over 3 ranks: each rank holds 0 to 4"
    assert ax.get_yticklabels()[2].get_text() == "spare"


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([[0, -1]], {}, "samples of rank 0: found -1"),
        ([[0], [0.5]], {}, "samples of rank 1: found"),
        ([0, 1, 2], {}, "samples of rank 0: found 0"),
        ([[True, False]], {}, "samples of rank 0"),
        ([], {}, "0 samples over 0 ranks"),
        ([[], []], {}, "0 samples over 2 ranks"),
        ([[5]], {"num_samples": 5}, "a rank holds sample 5"),
        ([[10**9]], {}, "1,000,000,001 samples"),
    ],
)
def test_indices_that_are_none_are_refused(given, options, message):
    with pytest.raises(ValueError, match=message):
        plot_sharding(given, **options)


# --- images


def test_images_stand_in_a_row_under_their_labels():
    images = torch.arange(12 * 64).reshape(12, 1, 8, 8) / (12 * 64)
    ax = plot_images(images, torch.arange(12) % 10)
    assert len(ax.images) == 12
    assert np.array_equal(ax.images[11].get_array(), images[11, 0])
    assert texts(ax)[:12] == [*map(str, range(10)), "0", "1"]
    assert title(ax) == "12 images of 8 × 8 pixels, each with its label"


def test_images_of_three_channels_are_drawn_in_colour():
    images = torch.rand(2, 3, 32, 32)
    ax = plot_images(images, [6, 9])
    assert np.array_equal(ax.images[1].get_array(), images[1].permute(1, 2, 0))
    assert title(ax) == "2 images of 32 × 32 pixels, each with its label"
    assert "data: colours" in texts(ax)


@pytest.mark.parametrize(("images", "labels"), [(2, 3), (0, 0), (101, 101)])
def test_images_and_labels_must_be_as_many(images, labels):
    with pytest.raises(ValueError, match=f"cannot draw {images} images with {labels}"):
        plot_images(np.zeros((images, 1, 8, 8)), range(labels))


PALETTE = {
    *colors.ROLE_COLORS.values(),
    *colors.RANK_COLORS,
    *colors.MEMORY_COLORS.values(),
}


@pytest.mark.parametrize("color", sorted(PALETTE))
def test_a_mark_or_its_outline_stands_out_from_white(color):
    shades = map(colors.luminance, (color, colors.edge(color)))
    assert max(1.05 / (shade + 0.05) for shade in shades) >= 3
