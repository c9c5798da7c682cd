"""Figures of devices, read through their artists: memory, copies, device timelines."""

import itertools

import matplotlib
import numpy as np
import pytest

from course_lib import colors
from course_lib.accelerators.memory import KINDS, Change, Memory, Transfer
from course_lib.plots import figure as frame
from course_lib.plots.memory import plot_memory
from course_lib.plots.memory_over_time import plot_memory_over_time
from course_lib.plots.timeline import plot_timeline
from course_lib.plots.transfers import plot_transfers
from course_lib.tracing.events import Event, Trace
from tests.test_plots import seen_without_green, texts, title

matplotlib.use("agg")

MODELLED = "modelled: 2 × A100, NVLink3"


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


def memory(*held, capacity=40e9):
    """Devices that hold these bytes by kind, in the order of `KINDS`."""
    devices = {f"vgpu:{i}": dict(zip(KINDS, row)) for i, row in enumerate(held)}
    return Memory(
        devices, dict.fromkeys(devices, int(capacity)), "counted on virtual GPUs"
    )


def copies(*flows):
    """A trace of copies, each written as `broadcast 0 1 4000`."""
    found = []
    for i, flow in enumerate(flows):
        name, *ends, count = flow.split()
        ends = [end if end == "cpu" else f"vgpu:{end}" for end in ends]
        found.append(Transfer(name, *ends, int(count), i, i))
    return Trace((), MODELLED, tuple(found))


def data_parallel(devices):
    """The copies of one step of `nn.DataParallel` on so many devices."""
    rest = range(1, devices)
    return copies(
        *(f"broadcast 0 {i} 4200000" for i in rest),
        *(f"scatter 0 {i} 2048" for i in rest),
        *(f"gather {i} 0 320" for i in rest),
        *(f"reduce {i} 0 4200000" for i in rest),
    )


def changes(*rows, stop=4e-3):
    """A trace of changes written as `2 0 activations 500` (ms, device, kind, bytes)."""
    rows = [row.split(" ", 2) for row in rows]
    found = [Change(float(t) / 1e3, f"vgpu:{d}", *_kind(rest)) for t, d, rest in rows]
    events = (Event("vgpu:0", "compute", "forward", 0.0, stop),)
    return Trace(events, MODELLED, (), tuple(found))


def _kind(rest):
    kind, _, count = rest.rpartition(" ")
    return kind, int(count)


SPLIT = memory((2e6, 2e6, 4e6, 9e6), (2e6, 2e6, 0, 1e5))
STEP = changes(
    "0 0 parameters 2000",
    "0 1 parameters 1000",
    "1 0 activations 6000",
    "2 1 activations 500",
    "3 0 activations -6000",
)


def segments(ax):
    """Kind, row, left and width of every segment."""
    bars = ((container.get_label(), container[0]) for container in ax.containers)
    return [
        (kind, bar.get_y() + bar.get_height() / 2, bar.get_x(), bar.get_width())
        for kind, bar in bars
    ]


def in_cells(ax):
    """The texts in the cells of a matrix: those that stand on the data."""
    return [text for text in ax.texts if text.get_transform() == ax.transData]


def cells(ax):
    """What the cells of a matrix say, by source and target."""
    rows, columns = (
        [label.get_text() for label in axis.get_ticklabels()]
        for axis in (ax.yaxis, ax.xaxis)
    )
    places = [(text.get_position(), text.get_text()) for text in in_cells(ax)]
    return {(rows[y], columns[x]): words for (x, y), words in places}


def luminance(ax, row, column):
    """That of a cell, which is white where no image holds anything."""
    for image in ax.images:
        value = image.get_array()[row, column]
        if value is not np.ma.masked:
            return colors.luminance(matplotlib.colors.to_hex(image.to_rgba(value)))
    return 1


# --- colours


def test_colours_differ_for_a_reader_who_does_not_see_green():
    shades = map(seen_without_green, colors.MEMORY_COLORS.values())
    pairs = itertools.combinations(shades, 2)
    assert min(np.abs(a - b).max() for a, b in pairs) > 0.1


def test_kinds_of_memory_differ_in_a_grey_print():
    light = sorted(map(colors.luminance, colors.MEMORY_COLORS.values()))
    steps = [116 * b ** (1 / 3) - 116 * a ** (1 / 3) for a, b in zip(light, light[1:])]
    assert list(colors.MEMORY_COLORS) == list(KINDS) and min(steps) > 9  # of 100


# --- memory


def test_a_device_is_a_row_of_its_kinds_from_left_to_right():
    ax = plot_memory(SPLIT)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["vgpu:0", "vgpu:1"]
    assert ax.yaxis_inverted() and ax.get_xlabel() == "memory (MB)"
    first = [part for part in segments(ax) if part[1] == pytest.approx(0)]
    assert [kind for kind, *_ in first] == list(KINDS)
    found = [(left, width) for *_, left, width in first]
    expected = [(0, 2), (2, 2), (4, 4), (8, 9)]
    assert np.array(found) == pytest.approx(np.array(expected))


def test_a_kind_has_its_colour_and_one_entry_in_the_legend():
    ax = plot_memory(memory((1e6, 2e6, 0, 4e6)))
    kinds = ["parameters", "gradients", "activations"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == kinds
    shades = [matplotlib.colors.to_hex(c[0].get_facecolor()) for c in ax.containers]
    assert shades == [colors.MEMORY_COLORS[kind] for kind in kinds]


def test_bytes_are_written_into_segments_that_they_fit():
    found = texts(plot_memory(memory((50e6, 1e3, 0, 50e6))))
    assert found.count("50 MB") == 2 and "1 kB" not in found


def test_a_capacity_that_is_near_is_a_line_through_every_row():
    ax = plot_memory(memory((6e6, 0, 0, 0), (1e6, 0, 0, 0), capacity=18e6))
    places = [(line.get_xdata()[0], np.mean(line.get_ydata())) for line in ax.lines]
    assert np.array(places) == pytest.approx(np.array([(18, 0), (18, 1)]))
    assert "capacity" in texts(ax) and ax.get_xlim()[1] > 18


def test_a_capacity_that_is_far_is_told_at_the_end_of_the_row():
    ax = plot_memory(memory((6e6, 0, 0, 0), capacity=18.1e6))
    assert not ax.lines and "6 MB of 18.1 MB" in texts(ax)


@pytest.mark.parametrize("capacity", [40e9, 24e6, 17.1e6])
def test_what_stands_behind_a_bar_stays_in_the_figure_and_off_the_bar(capacity):
    ax = plot_memory(memory((2e6, 2e6, 4e6, 9e6), capacity=capacity))
    ax.figure.draw_without_rendering()
    (text,) = (t for t in ax.texts if t.get_text().startswith("17 MB of"))
    box, end = text.get_window_extent(), ax.transData.transform((17, 0))[0]
    assert end < box.x0 and box.x1 <= ax.bbox.x1


def test_the_title_says_who_holds_most_and_what_of():
    first, second = title(plot_memory(SPLIT)).split("\n")
    assert first == "vgpu:0 holds 17 MB, vgpu:1 4.1 MB"
    assert second == "on vgpu:0 the largest share is activations, 53 %"
    full = memory((2e6, 2e6, 4e6, 9e6), capacity=17.5e6)
    assert title(plot_memory(full)).endswith("53 %; 97 % full")


@pytest.mark.parametrize(
    ("last", "line"),
    [
        (1e6, "vgpu:0 holds 1 MB, the other 7 hold 1 MB"),
        (5e6, "vgpu:7 holds 5 MB, the other 7 hold 1 MB"),
        (0, "vgpu:0 holds 1 MB, the other 7 hold 0 B to 1 MB"),
    ],
)
def test_eight_devices_share_one_line_of_the_title(last, line):
    rows = [(1e6, 0, 0, 0)] * 7 + [(last, 0, 0, 0)]
    ax = plot_memory(memory(*rows))
    assert title(ax).split("\n")[0] == line
    assert list(ax.get_yticks()) == list(range(8))


def test_a_device_that_holds_nothing_keeps_its_row():
    ax = plot_memory(memory((12e9, 0, 0, 0), (0, 0, 0, 8e3), (0,) * 4))
    assert {"8 kB of 40 GB", "0 B of 40 GB"} <= set(texts(ax))
    rows = [row for _, row, *_ in segments(ax)]
    assert rows == pytest.approx([0, 1])
    assert title(ax).startswith("vgpu:0 holds 12 GB, vgpu:1 8 kB, vgpu:2 nothing")


def test_empty_devices_are_drawn_as_such():
    ax = plot_memory(memory((0,) * 4, (0,) * 4))
    assert title(ax) == "vgpu:0 and vgpu:1 hold nothing" and not ax.containers


@pytest.mark.parametrize("given", [None, {"a": SPLIT}, {"vgpu:0": {"parameters": 3}}])
def test_what_is_no_memory_is_refused(given):
    with pytest.raises(ValueError, match="expected what memory"):
        plot_memory(given)


def test_memory_without_a_device_is_told_the_next_step():
    with pytest.raises(ValueError, match="no device is in it. Move the model"):
        plot_memory(Memory({}, {}, ""))


# --- memory over time


def test_the_fullest_device_is_drawn_and_named():
    ax = plot_memory_over_time(STEP)
    assert ax.get_xlim() == (0, 4) and ax.get_ylim() == pytest.approx((0, 8.8))
    assert "vgpu:0\npeak 8 kB" in texts(ax)


def test_kinds_are_stacked_and_each_level_lasts_until_the_next_change():
    ax = plot_memory_over_time(STEP)
    areas = {area.get_label(): area.get_paths()[0] for area in ax.collections}
    assert list(areas) == ["parameters", "activations"]
    held = [areas["activations"].contains_point((t, 5)) for t in (0.5, 1.5, 2.5, 3.5)]
    assert held == [False, True, True, False]
    assert areas["parameters"].contains_point((3.5, 1))
    (line,) = (line for line in ax.lines if line.get_label() == "in all")
    assert line.get_drawstyle() == "steps-post"
    level = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
    assert level == pytest.approx({0: 2, 1: 8, 3: 2, 4: 2})


def test_the_peak_is_marked_and_told_with_its_device_time_and_kind():
    ax = plot_memory_over_time(STEP)
    (peak,) = (line for line in ax.lines if line.get_label() == "peak")
    assert peak.get_xydata() == pytest.approx(np.array([[1, 8]]))
    first, second = title(ax).split("\n")
    assert first == "vgpu:0 peaks at 8 kB after 1 ms, 75 % of it activations"
    assert second == "the fullest of 2 devices, the least peaks at 1.5 kB"


def test_a_peak_of_no_duration_counts():
    taken = changes("0 0 parameters 100", "1 0 activations 900", "1 0 activations -900")
    ax = plot_memory_over_time(taken)
    assert title(ax) == "vgpu:0 peaks at 1 kB after 1 ms, 90 % of it activations"


def test_what_is_freed_and_taken_at_once_leaves_no_dip():
    swapped = changes("0 0 gradients 900", "1 0 gradients -900", "1 0 gradients 800")
    (line, *_) = plot_memory_over_time(swapped).lines
    assert line.get_ydata().tolist() == [900, 800, 800]


def test_a_window_starts_with_what_is_held_there():
    ax = plot_memory_over_time(STEP.between(1.5e-3, 3.5e-3))
    assert ax.get_xlim() == pytest.approx((0, 2))
    assert title(ax).startswith("vgpu:0 peaks at 8 kB at the start")


def test_a_device_that_only_computes_counts_as_empty():
    first, second = title(plot_memory_over_time(changes("0 1 gradients 700"))).split(
        "\n"
    )
    assert first.startswith("vgpu:1 peaks at 700 B at the start")
    assert second.endswith("the least peaks at 0 B")


def test_a_trace_that_ends_with_nothing_held_is_drawn_as_such():
    ax = plot_memory_over_time(changes("0 0 parameters 0"))
    assert title(ax) == "No device holds anything" and "vgpu:0\nempty" in texts(ax)


def test_the_alt_text_tells_every_peak_and_the_source():
    figure = plot_memory_over_time(STEP).figure
    page = figure._repr_mimebundle_()[0]["text/html"]
    assert "vgpu:1 1.5 kB after 2 ms: parameters 1 kB, activations 500 B" in page
    assert "bytes counted, time modelled: 2 × A100, NVLink3." in page


@pytest.mark.parametrize("given", [None, Trace((), MODELLED)])
def test_a_trace_without_changes_of_memory_is_told_the_next_step(given):
    with pytest.raises(ValueError, match="no change of memory. Record a step"):
        plot_memory_over_time(given)


# --- transfers


def test_every_device_is_a_row_and_a_column_the_cpu_first():
    ax = plot_transfers(copies("copy 10 2 8", "copy cpu 10 8"))
    for axis in (ax.xaxis, ax.yaxis):
        names = [label.get_text() for label in axis.get_ticklabels()]
        assert names == ["cpu", "vgpu:2", "vgpu:10"]
    assert ax.yaxis_inverted() and (ax.get_ylabel(), ax.get_xlabel()) == ("from", "to")


def test_a_cell_has_the_bytes_from_its_row_to_its_column():
    ax = plot_transfers(copies("broadcast 0 1 4200000", "gather 1 0 300"))
    assert cells(ax) == {
        ("vgpu:0", "vgpu:1"): "broadcast 4.2 MB",
        ("vgpu:1", "vgpu:0"): "gather 300 B",
    }


def test_a_cell_is_the_darker_the_more_it_holds_and_white_without_anything():
    ax = plot_transfers(
        copies("copy 0 1 4000000", "copy 1 2 40000", "copy 2 0 9", "copy 0 0 7")
    )
    shades = [luminance(ax, *place) for place in ((0, 1), (1, 2), (2, 0), (0, 2))]
    assert shades == sorted(shades) and len({*shades}) == 4
    assert shades[0] == colors.luminance(colors.ROLE_COLORS["communicate"])
    assert shades[-1] == 1
    own = {luminance(ax, n, n) for n in range(3)}
    assert len(own) == 1 and own.isdisjoint(shades)


def test_bytes_can_be_read_on_every_shade():
    flows = [f"copy 0 {i} {4**i}" for i in range(1, 9)]
    ax = plot_transfers(copies(*flows))
    for text in in_cells(ax):
        x, y = text.get_position()
        light = [luminance(ax, y, x), colors.luminance(text.get_color())]
        assert (max(light) + 0.05) / (min(light) + 0.05) >= 4.5


def test_copies_of_one_source_and_target_are_summed():
    alike = ["copy 0 1 1000000"] * 3
    ax = plot_transfers(copies(*alike, "copy 1 0 5000", "copy 1 0 7000"))
    assert [*cells(ax).values()] == ["copy 3 MB", "copy 12 kB"]
    told = "vgpu:0 to vgpu:1: 3 × copy 1 MB; vgpu:1 to vgpu:0: 2 × copy, 12 kB in all"
    assert told in ax.alt_text


def test_what_has_several_names_is_told_by_name_where_it_fits():
    ax = plot_transfers(data_parallel(4))
    assert cells(ax)["vgpu:0", "vgpu:3"] == "broadcast 4.2 MB\nscatter 2.05 kB"
    assert cells(ax)["vgpu:3", "vgpu:0"] == "gather 320 B\nreduce 4.2 MB"
    assert cells(plot_transfers(data_parallel(8)))["vgpu:0", "vgpu:7"] == "4.2 MB"


@pytest.mark.parametrize("devices", [2, 4, 8, 16])
def test_each_cell_of_data_parallel_has_words_that_stay_in_it(devices):
    ax = plot_transfers(data_parallel(devices))
    ax.figure.draw_without_rendering()
    words = in_cells(ax)
    assert len(words) == 2 * (devices - 1)
    for text in words:
        x, y = text.get_position()
        box = text.get_window_extent()
        corners = ax.transData.transform([(x - 0.5, y + 0.5), (x + 0.5, y - 0.5)])
        assert (corners[0] <= box.p0).all() and (box.p1 <= corners[1]).all()


def test_a_crowd_without_room_for_words_is_told_in_the_alt_text():
    ax = plot_transfers(data_parallel(40))
    assert not any(text.get_text() for text in in_cells(ax))
    assert "vgpu:39 to vgpu:0: gather 320 B" in ax.alt_text


def test_the_title_says_how_much_moves_and_who_sends_most():
    assert title(plot_transfers(data_parallel(4))).split("\n") == [
        "25.2 MB copied: most leaves vgpu:0, 12.6 MB (50 %)",
        "broadcast 12.6 MB, reduce 12.6 MB, the rest 7.1 kB",
        "vgpu:0 sends or receives all of it",
    ]
    ax = plot_transfers(copies("copy cpu 0 64"))
    assert title(ax) == "64 B copied, all from cpu"
    ax = plot_transfers(copies("copy 0 1 64", "copy 1 0 64"))
    assert title(ax) == "128 B copied: vgpu:0 and vgpu:1 send 64 B each"


@pytest.mark.parametrize("flows", [[], ["scatter 0 0 64"]])
def test_a_trace_without_copies_is_told_the_next_step(flows):
    with pytest.raises(ValueError, match="nothing was copied between devices"):
        plot_transfers(copies(*flows))


@pytest.mark.parametrize("devices", [9, 16])
def test_a_crowd_of_devices_is_named_by_index(devices):
    ax = plot_transfers(data_parallel(devices))
    last = f"vgpu:{devices - 1}" if devices < 10 else str(devices - 1)
    for axis in (ax.xaxis, ax.yaxis):
        assert axis.get_ticklabels()[-1].get_text() == last
    assert f"vgpu:{devices - 1}" in ax.alt_text


# --- timelines of devices


def pipeline(micro):
    """Two devices that work on so many micro-batches one after the other."""
    rows = [
        Event(f"vgpu:{d}", "compute", f"forward {m}", m + d, m + d + 1)
        for d in range(2)
        for m in range(micro)
    ]
    copy = Event("vgpu:0", "communicate", "copy to vgpu:1", micro, micro + 0.1, 64)
    return Trace((*rows, copy), MODELLED)


def test_a_bar_too_short_for_its_name_has_its_number():
    found = texts(plot_timeline(pipeline(8)))
    assert sorted(t for t in found if t.isdecimal()) == sorted(
        [*map(str, range(8))] * 2
    )
    assert "forward 0" not in found
    assert "forward 1" in texts(plot_timeline(pipeline(2)))


def test_a_bar_too_short_for_its_number_has_nothing():
    assert not any(t.isdecimal() for t in texts(plot_timeline(pipeline(90))))


def test_a_name_that_ends_in_a_device_is_not_cut_to_its_index():
    rows = ("communicate", "copy to vgpu:1", 0, 2), ("compute", "forward 3", 2, 20)
    trace = Trace([Event("vgpu:0", *row) for row in rows], MODELLED)
    found = texts(plot_timeline(trace))
    assert not {"copy to vgpu:1", "vgpu:1"} & set(found) and "forward 3" in found


def test_a_modelled_timeline_says_so_and_counts_devices():
    ax = plot_timeline(pipeline(4))
    assert MODELLED in texts(ax) and title(ax).startswith("2 devices, 5 s")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["vgpu:0", "vgpu:1"]


@pytest.mark.parametrize("missing", [*colors.ROLE_COLORS, None])
def test_the_legend_of_a_timeline_stays_in_the_figure(missing):
    roles = [role for role in colors.ROLE_COLORS if role != missing]
    kinds = [role if role in ("communicate", "wait") else "compute" for role in roles]
    rows = zip(kinds, roles, itertools.count())
    events = (Event("vgpu:0", kind, role, i, i + 1) for kind, role, i in rows)
    ax = plot_timeline(Trace(events, MODELLED))
    ax.figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    assert box.x1 <= ax.figure.bbox.x1 and ax.get_window_extent().x1 > box.x1 - 60


# --- every figure

EVERY = {
    "memory": lambda ax=None: plot_memory(SPLIT, ax=ax),
    "over time": lambda ax=None: plot_memory_over_time(
        changes("0 0 parameters 2000", "1 0 activations 6000"), ax=ax
    ),
    "transfers": lambda ax=None: plot_transfers(data_parallel(4), ax=ax),
}
every = pytest.mark.parametrize("draw", EVERY.values(), ids=EVERY)


@every
def test_a_figure_draws_on_the_given_axes_and_returns_them(draw):
    figure, ax = matplotlib.pyplot.subplots(figsize=(9, 3))
    assert draw(ax) is ax
    assert matplotlib.pyplot.get_fignums() == [figure.number]
    assert draw().figure.get_size_inches()[0] == frame.WIDTH


@every
def test_a_figure_leaves_the_learners_style_alone_and_stays_white(draw):
    with matplotlib.pyplot.style.context("dark_background"):
        before = dict(matplotlib.rcParams)
        ax = draw()
        assert dict(matplotlib.rcParams) == before
        assert ax.figure.get_facecolor() == (1, 1, 1, 1)


@every
def test_a_figure_has_large_text_a_source_and_alt_text(draw):
    ax = draw()
    ax.figure.draw_without_rendering()
    found = ax.findobj(matplotlib.text.Text)
    sizes = [text.get_fontsize() for text in found if text.get_text()]
    assert len(sizes) > 3 and min(sizes) >= 10
    (source,) = (t for t in texts(ax) if "counted" in t)
    assert ax.alt_text.startswith(title(ax).split("\n")[0])
    assert ax.alt_text.endswith(f"{source}.")
