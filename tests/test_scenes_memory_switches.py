"""Four switches of memory: what each takes away, what it costs, and how it is drawn."""

import itertools

import pytest

from course_lib.accelerators.gpt_peak import GptStep, fullest
from course_lib.accelerators.memory import KINDS
from course_lib.errors import UsageError
from course_lib.scenes import memory_switches
from course_lib.text import size
from tests.moments import items

GIVEN = {"layers": 4, "width": 64, "heads": 4, "length": 64, "batch": 256}
GIVEN["capacity"] = 64e6
OFF = 256, "float32", "nothing", "scores kept"
ON = 64, "autocast", "each block", "one kernel"


@pytest.fixture(scope="module")
def scene():
    return memory_switches(**GIVEN)


def bar(moment, name):
    """`{kind: bytes}` of a bar, as its tips say them."""
    tips = [item.tip for item in moment.items if item.tip.startswith(f"{name}: ")]
    return dict(tip.removeprefix(f"{name}: ").split(", ") for tip in tips)


def title(scene, *values):
    return scene.runs[values][-1].title


def test_it_begins_with_all_switches_off(scene):
    assert tuple(scene.at.values()) == OFF
    assert scene.parameters == {
        "micro-batch": [4, 16, 64, 256],
        "numbers": ["float32", "autocast"],
        "recompute": ["nothing", "each block"],
        "attention": ["scores kept", "one kernel"],
    }
    assert len(scene.runs) == 4 * 2 * 2 * 2


def test_bars_show_the_fullest_moment_of_the_chosen_plan(scene):
    for values in scene.runs:
        windows, numbers, recompute, attention = values
        bits = 16 if numbers == "autocast" else 32
        how = bits, recompute == "each block", attention == "scores kept"
        held = fullest(GptStep(4, 64, 4, 64, 256, windows, *how)).held
        last = scene.runs[values][-1]
        assert bar(last, "chosen") == {kind: size(held[kind]) for kind in KINDS}
        drawn, scale = (
            items(last),
            470 / fullest(GptStep(4, 64, 4, 64, 256, 256, plain=True)).total,
        )
        for kind in KINDS:
            wide = max(1.2, held[kind] * scale)
            assert drawn[f"{kind} chosen"].w == pytest.approx(wide)


def test_the_start_stays_beside_what_is_chosen(scene):
    begun = bar(scene.runs[OFF][-1], "start")
    assert begun == bar(scene.runs[OFF][-1], "chosen")
    for values, moments in scene.runs.items():
        for moment in moments:
            drawn = items(moment)
            assert bar(moment, "start") == begun, values
            assert "faded" in drawn["activations start"].role
            assert drawn["outline start"].role == "place"
            assert drawn["start activations count"].text == begun["activations"]


def test_each_switch_alone_takes_away_and_says_what_it_costs(scene):
    assert title(scene, *OFF) == (
        "1 micro-batch of 256 windows: 367 MB do not fit into 64 MB."
    )
    costs = {
        (64, *OFF[1:]): "94.4 MB do not fit into 64 MB, without more arithmetic.",
        (16, *OFF[1:]): "26.1 MB fit into 64 MB, without more arithmetic.",
        (256, "autocast", *OFF[2:]): (
            "270 MB do not fit into 64 MB, without more arithmetic."
        ),
        (*OFF[:2], "each block", OFF[3]): (
            "121 MB do not fit into 64 MB, for 1.23 times the arithmetic."
        ),
        (*OFF[:3], "one kernel"): (
            "301 MB do not fit into 64 MB, for 1.02 times the arithmetic."
        ),
    }
    for values, words in costs.items():
        assert title(scene, *values).partition(": ")[2] == words


def test_the_last_sentence_names_all_that_is_on(scene):
    assert title(scene, *ON) == (
        "4 micro-batches of 64 windows, autocast, each block recomputed, attention in"
        " one kernel: 20 MB fit into 64 MB, for 1.26 times the arithmetic."
    )


def test_kinds_come_one_after_the_other_with_a_sentence_each(scene):
    moments = scene.runs[ON]
    for count, moment in enumerate(moments, 1):
        assert list(bar(moment, "chosen")) == list(KINDS[:count])
    assert [moment.title for moment in moments[:3]] == [
        "Parameters, 4 bytes each: 841 kB on the GPU.",
        "A step is fullest in backward through block 3: gradients of earlier"
        " micro-batches and a new one are there, 899 kB.",
        "AdamW, 8 bytes for each parameter: 1.68 MB.",
    ]


def test_the_second_sentence_says_where_a_step_is_fullest(scene):
    def told(*values):
        return scene.runs[values][1].title.removeprefix("A step is fullest ")

    assert told(*OFF) == "where backward begins: no gradients are there yet."
    assert told(64, *OFF[1:]) == (
        "where backward begins: gradients of earlier micro-batches are there, 841 kB."
    )
    assert told(256, *ON[1:]) == (
        "in backward through block 3: gradients of 58 kB are there by then."
    )
    small = memory_switches(**GIVEN | {"layers": 1, "batch": 1, "length": 4})
    ends = {moments[1].title for moments in small.runs.values()}
    assert any("at the end of backward: gradients of" in end for end in ends)


def test_the_sum_of_a_bar_and_a_mark_stand_beside_it(scene):
    for values, mark in ((OFF, "367 MB ✗"), (ON, "20 MB ✓")):
        drawn = items(scene.runs[values][-1])
        assert drawn["total chosen"].text == mark
        assert drawn["total start"].text == "367 MB ✗"
        end = drawn["activations chosen"].x + drawn["activations chosen"].w
        assert drawn["total chosen"].x >= max(end, drawn["capacity"].x)


def test_a_batch_of_few_windows_has_fewer_micro_batches():
    assert memory_switches(**GIVEN | {"batch": 10}).parameters["micro-batch"] == [
        1,
        2,
        10,
    ]
    assert "micro-batch" not in memory_switches(**GIVEN | {"batch": 1}).parameters


def test_micro_batches_that_do_not_divide_the_batch_hold_up_to_so_many():
    scene = memory_switches(**GIVEN | {"batch": 10})
    assert title(scene, 2, *OFF[1:]).startswith("5 micro-batches of 2 windows:")
    scene = memory_switches(**GIVEN | {"batch": 23})
    assert title(scene, 5, *OFF[1:]).startswith("5 micro-batches of up to 5 windows:")


@pytest.mark.parametrize("capacity", [1, 64e6, 1e9, 1e15])
@pytest.mark.parametrize("larger", [1, 1000])
def test_all_stays_in_the_figure_and_no_texts_meet(capacity, larger):
    wide = {"width": 64 * larger, "capacity": capacity}
    scene = memory_switches(**GIVEN | wide)
    for moments in scene.runs.values():
        labels = [item for item in moments[-1].items if item.text]
        for item in moments[-1].items:
            assert item.x + item.w <= 640 and item.y + item.h <= scene.size[1]
        spans = [(item.y + item.h / 2, *span(item)) for item in labels]
        assert all(left >= -1 and right <= 641 for _, left, right in spans)
        for one, other in itertools.combinations(spans, 2):
            apart = one[2] < other[1] or other[2] < one[1]
            assert apart or abs(one[0] - other[0]) >= 14


def span(item):
    """Where a text begins and ends, from left to right."""
    wide = 6.6 * len(item.text)
    left = item.x - wide / 2 if "middle" in item.role else item.x
    return left, left + wide


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layers": 0}, "layers cannot be 0: expected a whole number from 1 to 128"),
        ({"layers": 10**9}, "layers cannot be 1000000000"),
        ({"batch": -1}, "batch cannot be -1: expected a whole number"),
        ({"length": 6.5}, "length cannot be 6.5: expected a whole number"),
        ({"words": True}, "words cannot be True"),
        ({"width": [64, 128]}, "width cannot be .*expected a whole number"),
        ({"heads": 5}, "width cannot be 64 with heads=5: .* multiple of 4 · heads, 20"),
        ({"heads": 32}, "width cannot be 64 with heads=32"),
        ({"capacity": 0}, "capacity cannot be 0: expected a number from 1"),
        ({"capacity": "64 MB"}, "capacity cannot be '64 MB'"),
        ({"capacity": float("nan")}, "capacity cannot be nan"),
    ],
)
def test_what_is_no_size_is_refused_in_a_sentence(change, words):
    with pytest.raises(UsageError, match=words):
        memory_switches(**GIVEN | change)


def test_the_largest_sizes_are_drawn_too():
    most = {"layers": 128, "width": 10**5, "heads": 25, "length": 10**6}
    scene = memory_switches(**most, batch=10**6, words=10**6, capacity=1e18)
    assert "do not fit into 1e+06 TB" in scene.moments[-1].title


def test_the_figure_of_the_lesson_is_small(scene):
    assert len(scene._repr_html_()) < 50_000
