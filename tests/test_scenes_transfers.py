"""Transfers of a trace move from device to device, one kind after the other."""

import pytest

from course_lib.accelerators.memory import Transfer
from course_lib.errors import UsageError
from course_lib.scenes import transfers
from course_lib.scenes.transfers import Round, circle, moments
from course_lib.tracing.events import Trace
from tests.moments import items


def trace(*texts):
    """`scatter 0 1 4096` is a transfer from vgpu:0 to vgpu:1."""
    rows = (text.split() for text in texts)
    copies = [
        Transfer(name, f"vgpu:{source}", f"vgpu:{target}", int(count), time, time + 1)
        for time, (name, source, target, count) in enumerate(rows)
    ]
    return Trace((), "modelled: 4 × A100, NVLink3", tuple(copies))


def step(others=(1, 2, 3)):
    """A step of DataParallel."""
    out = [f"broadcast 0 {i} {n}" for i in others for n in (16_000, 3_240)]
    back = [f"{name} {i} 0 640" for name in ("gather", "reduce") for i in others]
    return trace(*out, *back)


def test_neighbours_of_one_name_and_direction_move_at_once():
    titles = [moment.title for moment in transfers(step()).moments]
    assert titles == [
        "4 devices, and nothing has moved.",
        "broadcast: 57.7 kB leave vgpu:0.",
        "gather: 1.92 kB come to vgpu:0.",
        "reduce: 1.92 kB come to vgpu:0.",
        "In all 61.6 kB: vgpu:0 sends 57.7 kB and gets 3.84 kB.",
    ]


def test_there_and_back_are_two_moves():
    titles = [m.title for m in transfers(trace("copy 0 1 5", "copy 1 0 7")).moments]
    assert titles[1:3] == [
        "copy: 5 B from vgpu:0 to vgpu:1.",
        "copy: 7 B from vgpu:1 to vgpu:0.",
    ]


def test_a_collective_is_one_move_also_where_its_chain_ends_below():
    ring = ["vgpu:1 vgpu:2", "vgpu:2 vgpu:3", "vgpu:3 vgpu:0"]
    copies = [
        Transfer("reduce", *ends.split(), 19_240, bucket + time, bucket + time + 9)
        for bucket in (0, 20)
        for time, ends in enumerate(ring)
    ]
    titles = [m.title for m in transfers(Trace((), "modelled", tuple(copies))).moments]
    assert titles[1] == "reduce: each hands on 38.5 kB, from vgpu:1 to vgpu:0."
    assert len(titles) == 3


def test_a_chip_comes_out_of_its_source_and_goes_into_its_target():
    before, under_way, after = (items(m) for m in transfers(step()).moments[:3])
    name = "bytes 0 vgpu:0 vgpu:2"
    assert under_way[name].text == "19.2 kB"
    assert [at[name].role for at in (before, under_way, after)] == [
        "communicate gone",
        "communicate",
        "communicate gone",
    ]
    middle = {d: i.y + i.h / 2 for d, i in after.items() if d.startswith("device")}
    chips = [at[name].y + at[name].h / 2 for at in (before, under_way, after)]
    assert chips[0] == middle["device vgpu:0"] < chips[1] < chips[2]
    assert chips[2] == middle["device vgpu:2"]


def test_each_device_counts_what_it_sent_and_got():
    last = items(transfers(step()).moments[-1])
    assert last["device vgpu:0"].tip == "vgpu:0: sent 57.7 kB, got 3.84 kB"
    assert last["vgpu:3 0"].text == "sent 1.28 kB"
    assert last["vgpu:3 1"].text == "got 19.2 kB"


def test_the_last_moment_lists_all_moves():
    last = items(transfers(step()).moments[-1])
    texts = [last[f"line {i}"].text for i in range(3)]
    assert texts == ["broadcast: 57.7 kB", "gather: 1.92 kB", "reduce: 1.92 kB"]


@pytest.mark.parametrize("others", [[1], [1, 2], range(1, 8)])
def test_nothing_leaves_the_figure_and_no_devices_overlap(others):
    scene = transfers(step(others))
    boxes = [i for i in scene.moments[-1].items if i.role == "box"]
    assert all(
        i.x >= 0 and i.x + i.w <= 640 and i.y + i.h <= scene.size[1] for i in boxes
    )
    assert all(a.x + a.w <= b.x or a.y + a.h <= b.y for a, b in zip(boxes, boxes[1:]))


def test_rings_are_other_rounds_on_other_places():
    ranks = [f"rank {i}" for i in range(4)]
    ring = {(rank, ranks[(i + 1) % 4]): 10 for i, rank in enumerate(ranks)}
    titles = [m.title for m in moments([Round("send", ring)] * 3, circle(ranks))]
    assert titles[1] == "send: 40 B between 4 devices."
    assert titles[-1] == "In all 120 B: each sends 30 B and gets 30 B."


def test_a_name_with_markup_is_text():
    html = transfers(trace("<script>alert()</script> 0 1 5"))._repr_html_()
    assert "<script>alert" not in html


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        (None, "nothing was copied"),
        (trace(), "nothing was copied"),
        ([], "needs what `cl.trace..` recorded: found list"),
        ("trace", "recorded: found str"),
        (trace("copy 0 0 5"), "nothing was copied"),
        (step(range(1, 9)), "room for 8"),
        (trace(*["copy 0 1 5", "copy 1 0 5"] * 20), "record a single step"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_sentence(recorded, words):
    with pytest.raises(UsageError, match=words):
        transfers(recorded)


def test_figures_are_small():
    assert len(transfers(step())._repr_html_()) < 35_000
    largest = trace(*["copy 0 1 5", *(f"copy {i} 0 7" for i in range(1, 8))] * 12)
    assert len(transfers(largest)._repr_html_()) < 60_000
