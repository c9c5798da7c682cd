"""The scene of a trace: its bars, its moments in time, and traces that are odd."""

import json
import random

import pytest

from course_lib import scenes
from course_lib.errors import UsageError
from course_lib.launching.results import Results
from course_lib.scenes import timeline_bars as bars
from course_lib.scenes.scene import payload
from course_lib.tracing.events import Event, Trace

STEP = (
    Event(0, "compute", "forward", 5.0, 5.1),
    Event(0, "compute", "backward", 5.1, 5.3),
    Event(0, "communicate", "all_reduce", 5.2, 5.4, 4_200_000),
    Event(1, "compute", "backward", 5.0, 5.2),
    Event(1, "wait", "all_reduce", 5.2, 5.4),
)


def trace(*events, source="measured: 2 ranks"):
    return Trace(tuple(events), source)


def events_of(scene):
    return [i for i in scene.moments[-1].items if "event" in i.role]


def noise(count, ranks=2):
    """Events of all kinds, as from a long run."""
    chance = random.Random(0)
    kinds = ("compute", "communicate", "wait")
    for number in range(count):
        start = chance.random() * 100
        long = 20 if number % 1000 == 0 else chance.random() / 1000
        yield Event(
            number % ranks,
            chance.choice(kinds),
            f"op {number % 50}",
            start,
            start + long,
            8,
        )


def test_each_event_is_a_bar_in_the_row_of_its_rank():
    shown = events_of(scenes.timeline(trace(*STEP)))
    rows = {item.y for item in shown}
    assert len(shown) == 5 and len(rows) == 4  # two lanes for each of two ranks
    [first] = [item for item in shown if item.text == "forward"]
    assert (first.x, first.w) == (0, pytest.approx(100)) and "forward" in first.role


def test_what_is_read_names_rank_event_and_bytes():
    tips = [item.tip for item in events_of(scenes.timeline(trace(*STEP)))]
    assert "rank 0: all_reduce, 4.2 MB" in tips and "rank 1: backward" in tips


def test_a_moment_says_what_each_rank_does_and_covers_what_comes_later():
    moments = scenes.timeline(trace(*STEP)).moments
    titles = [moment.title for moment in moments]
    assert titles[0] == "0 ms: rank 0 computes forward, rank 1 computes backward."
    assert "200 ms: rank 0 computes backward and communicates, rank 1 waits." in titles
    veils = [i.x for m in moments[:-1] for i in m.items if i.id == "veil"]
    assert veils == sorted(veils) and len({*veils}) == len(moments) - 1
    assert not [i for i in moments[-1].items if i.id == "veil"]


def test_the_last_title_is_that_of_the_still_figure():
    last = scenes.timeline(trace(*STEP)).moments[-1].title
    assert last.startswith("2 ranks, 400 ms: rank 0 computes 75 % of the time")


def test_two_runs_begin_at_one_moment_on_one_scale():
    late = (
        e.__class__(e.rank, e.kind, e.name, e.start + 90, e.stop + 91) for e in STEP
    )
    scene = scenes.timeline({"by hand": trace(*STEP), "DDP": trace(*late)})
    first = {item.id.rpartition(" ")[0]: item.x for item in events_of(scene)[::-1]}
    assert set(first) == {"0", "1"}  # the runs in their order
    assert min(i.x for i in events_of(scene) if i.id.startswith("1 ")) == 0
    assert scene.moments[-1].title == "by hand 400 ms, DDP 1.4 s"
    assert scene.axis.unit == "s"


def test_many_ranks_are_counted_in_words():
    many = (Event(rank, "compute", "forward", 0, 1 + rank) for rank in range(6))
    titles = [m.title for m in scenes.timeline(trace(*many)).moments]
    assert titles[0] == "0 s: each rank computes forward."
    rest = "1 rank: does nothing with tensors."
    assert titles[1] == f"1 s: 5 ranks: computes forward, {rest}"


def test_short_gaps_between_events_hide_nothing_of_what_a_rank_does():
    steps = [Event(0, "compute", "forward", i, i + 0.99) for i in range(64)]
    steps += [Event(1, "compute", "add", i + 0.4, i + 0.5) for i in range(64)]
    titles = [m.title for m in scenes.timeline(trace(*steps)).moments[:-1]]
    says = "rank 0 computes forward, rank 1 does nothing with tensors."
    assert len(titles) > 20 and all(title.endswith(says) for title in titles)


def test_a_run_that_is_over_has_ended():
    runs = {"one": trace(*STEP), "long": trace(*STEP, Event(0, "wait", "x", 5.4, 9.0))}
    titles = [moment.title for moment in scenes.timeline(runs).moments]
    assert titles[0].startswith("0 s: one: rank 0 computes forward")
    assert titles[-2].partition("; ")[0].endswith(" s: one: has ended")
    assert "long: rank 0 waits" in titles[-2]


def test_a_bar_that_another_covers_has_no_half_name():
    both = [Event(0, "communicate", f"send {n}", n, n + 1.5) for n in range(2)]
    other = Event(1, "communicate", "alone", 0.0, 2.5)
    texts = [item.text for item in events_of(scenes.timeline(trace(*both, other)))]
    assert sorted(texts) == ["", "alone", "send 1"]


def test_a_bar_of_waiting_says_that_it_waits():
    tips = [item.tip for item in events_of(scenes.timeline(trace(*STEP)))]
    assert "rank 1: waits in all_reduce" in tips


def test_a_hundred_thousand_events_are_thinned_with_a_note():
    scene = scenes.timeline(trace(*noise(100_000)))
    shown = events_of(scene)
    assert 100 < len(shown) <= bars.MOST
    assert (
        f"100,000 events as {len(shown)}: short neighbours stand as one" in scene.source
    )
    assert len(scene._repr_html_()) < 60_000


def test_thinning_keeps_what_is_long_and_counts_what_is_short():
    events = trace(*noise(20_000))
    [thin] = bars.bars_of({"": events}, 400).values()
    assert sum(bar.events for bar in thin) == len(events)
    assert sum(bar.bytes for bar in thin) == sum(event.bytes for event in events)
    long = [event for event in events if event.duration > 10]
    kept = {(bar.start, bar.stop) for bar in thin if bar.events == 1}
    assert long and all((event.start, event.stop) in kept for event in long)


def test_few_events_are_all_there():
    [some] = bars.bars_of({"": trace(*noise(300))}).values()
    assert len(some) == 300 and {bar.events for bar in some} == {1}


@pytest.mark.parametrize("given", [None, Trace((), "measured"), {}])
def test_without_events_there_is_a_sentence(given):
    with pytest.raises(UsageError, match="no trace to draw|no events"):
        scenes.timeline(given)


def test_a_run_without_events_is_named():
    with pytest.raises(UsageError, match="DDP: the trace holds no events"):
        scenes.timeline({"by hand": trace(*STEP), "DDP": trace()})


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_an_event_without_a_time_is_named(number):
    bad = Event(1, "wait", "barrier", 5.0, number)
    with pytest.raises(UsageError, match="barrier of rank 1 has no time: 5.0 to"):
        scenes.timeline(trace(*STEP, bad))


@pytest.mark.parametrize(
    "events",
    [
        [Event(0, "compute", "one", 3.0, 4.0)],
        [Event(0, "compute", "no length", 3.0, 3.0)],
        [Event("vgpu:0", "wait", "backwards", 4.0, 3.0)],
        [Event(0, "compute", "</script><b>&", 0, 1, 10**15), STEP[-1]],
        [Event(0, "compute", "early", 0, 1e-9), Event(1, "compute", "late", 9e5, 1e6)],
    ],
)
def test_an_odd_trace_is_harmless(events):
    scene = scenes.timeline(trace(*events))
    assert scene._repr_html_().count("</script>") == 1
    json.dumps(payload(scene), allow_nan=False)


def test_more_ranks_than_rows_are_told():
    wide = (Event(rank, "compute", "forward", 0, 1) for rank in range(100))
    scene = scenes.timeline(trace(*wide))
    assert len(events_of(scene)) == 48 and "48 of 100 rows are drawn" in scene.source


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([*STEP], "expected a trace, found list"),
        ("trace", "expected a trace, found str"),
        ({"a": trace(*STEP), "b": 3}, "b: expected a trace, found int"),
        ([trace(*STEP)], "expected a trace, found list"),
        (
            {str(i): trace(*STEP) for i in range(13)},
            "13 runs: the figure has room for 12",
        ),
    ],
)
def test_what_is_no_trace_is_a_sentence(given, words):
    with pytest.raises(UsageError, match=words):
        scenes.timeline(given)


def test_results_lead_to_their_trace():
    results = Results(
        [1], output=[], seconds=1, trace=trace(*STEP), meter=None, title=""
    )
    with pytest.raises(UsageError, match="found Results: give its `.trace`"):
        scenes.timeline(results)


def test_names_that_take_much_room_leave_room_for_fewer_bars():
    events = [
        Event(f"Gerät {'ß' * 200} {i % 8}", "compute", f"{i} {'ß' * 80}", i, i + 1)
        for i in range(800)
    ]
    runs = {f"{i} {'ß' * 500}": trace(*events) for i in range(4)}
    scene = scenes.timeline(runs)
    assert len(scene._repr_html_()) < 60_000
    names = [item for item in scene.moments[-1].items if item.role == "label strong"]
    assert len(names) == 4 and all(6.6 * len(item.text) <= 640 for item in names)
    assert all(item.text.endswith("…") for item in names)
