import json
import pickle

import pytest

from course_lib.accelerators.memory import Change, Transfer
from course_lib.tracing.events import Event, Trace, happens_before
from course_lib.tracing.merge import Mark, merge_ranks


def compute(rank, start, stop, name="forward"):
    return Event(rank, "compute", name, start, stop)


def collective(start, stop, *, sequence=1, group="0", bytes=8):
    return Mark("communicate", "all_reduce", start, stop, bytes, group, sequence)


def times(trace):
    return [(event.kind, event.start, event.stop) for event in trace]


def test_a_trace_sorts_its_events_by_start():
    late, early = compute(0, 2, 3), compute(1, 0, 1)
    assert list(Trace((late, early), "measured")) == [early, late]


def test_ranks_are_in_order_and_devices_by_their_index():
    ranks = [10, 2, "vgpu:10", "vgpu:2"]
    trace = Trace(tuple(compute(rank, 0, 1) for rank in ranks), "modelled")
    assert trace.ranks == (2, 10, "vgpu:2", "vgpu:10")


def test_select_keeps_the_events_that_match_all_of_rank_kind_and_name():
    wanted = compute(0, 0, 1, "backward")
    others = compute(0, 1, 2), compute(1, 0, 1, "backward")
    trace = Trace((wanted, *others), "measured")
    assert list(trace.select(rank=0, name="backward")) == [wanted]
    assert len(trace.select(kind="compute")) == 3
    assert len(trace.select(kind="wait")) == 0


def test_a_window_cuts_events_at_both_ends():
    inside, across, outside = compute(0, 2, 3), compute(0, 3, 9), compute(0, 4, 5)
    window = Trace((inside, across, outside), "measured").between(2.5, 4)
    assert times(window) == [("compute", 2.5, 3), ("compute", 3, 4)]
    assert window.source == "measured"


def copy(start, stop):
    return Transfer("copy", "vgpu:0", "vgpu:1", 8, start, stop)


def change(time, bytes, kind="activations"):
    return Change(time, "vgpu:0", kind, bytes)


def test_a_trace_sorts_transfers_and_changes_of_memory():
    copies, changes = [copy(2, 3), copy(0, 1)], [change(2, 8), change(0, 4)]
    trace = Trace((), "modelled", copies, changes)
    assert trace.transfers == (copy(0, 1), copy(2, 3))
    assert trace.memory == (change(0, 4), change(2, 8))


def test_changes_at_one_moment_keep_their_order():
    changes = (change(1, 8), change(1, -8), change(1, 4))
    assert Trace((), "modelled", memory=changes).memory == changes


def test_a_selection_keeps_transfers_and_memory():
    events = compute("vgpu:0", 0, 1), compute("vgpu:1", 0, 1)
    trace = Trace(events, "modelled", (copy(0, 1),), (change(0, 4),))
    chosen = trace.select("vgpu:1")
    assert len(chosen) == 1
    assert (chosen.transfers, chosen.memory) == (trace.transfers, trace.memory)


def test_a_window_keeps_the_transfers_that_reach_into_it_cut_at_both_ends():
    copies = copy(0, 1), copy(1, 3), copy(2, 2), copy(3, 3.5), copy(4, 5)
    window = Trace((), "modelled", copies).between(2, 4)
    assert window.transfers == (copy(2, 2), copy(2, 3), copy(3, 3.5))


def test_a_window_of_memory_begins_with_what_is_held_there():
    before = change(0, 8), change(1, 4), change(2, -2), change(1, 6, "gradients")
    gone = change(0, 3, "parameters"), change(1, -3, "parameters")
    later = change(3, 5), change(4, -5)
    window = Trace((), "modelled", memory=(*before, *gone, *later)).between(2, 4)
    assert set(window.memory[:2]) == {change(2, 10), change(2, 6, "gradients")}
    assert window.memory[2:] == (change(3, 5),)


def test_busy_counts_a_moment_of_two_events_once():
    events = compute(0, 0, 4), compute(0, 2, 6), compute(1, 0, 8)
    trace = Trace(events, "measured")
    assert trace.span == 8
    assert trace.busy(0) == 0.75
    assert trace.busy(1) == 1


def test_overlap_is_communication_and_waiting_behind_the_same_ranks_compute():
    hidden = Event(0, "communicate", "all_reduce", 3, 6)
    twin = Event(0, "communicate", "all_reduce", 3, 5)
    waiting = Event(0, "wait", "all_reduce", 1, 2)
    other = Event(1, "communicate", "all_reduce", 0, 4)
    trace = Trace((compute(0, 0, 4), hidden, twin, waiting, other), "measured")
    assert trace.overlap(0) == 2
    assert trace.overlap(1) == 0


def test_an_event_happens_before_another_if_it_stops_by_its_start():
    first, second, third = compute(0, 0, 2), compute(1, 2, 3), compute(1, 1, 3)
    assert happens_before(first, second)
    assert not happens_before(second, first)
    assert not happens_before(first, third)


def test_a_rank_waits_until_the_last_rank_enters():
    entries = {0: 10, 1: 13, 2: 11}
    calls = {rank: [collective(entry, 15)] for rank, entry in entries.items()}
    trace = merge_ranks(calls, "measured")
    assert times(trace.select(0)) == [("wait", 0, 3), ("communicate", 3, 5)]
    assert times(trace.select(1)) == [("communicate", 3, 5)]
    assert times(trace.select(2)) == [("wait", 1, 3), ("communicate", 3, 5)]


def test_a_rank_never_waits_beyond_its_own_stop():
    trace = merge_ranks({0: [collective(0, 2)], 1: [collective(3, 4)]}, "measured")
    assert times(trace.select(0)) == [("wait", 0, 2), ("communicate", 2, 2)]


def test_bytes_belong_to_the_communicate_event_alone():
    trace = merge_ranks({0: [collective(0, 2)], 1: [collective(1, 2)]}, "measured")
    assert [event.bytes for event in trace.select(kind="wait")] == [0]
    assert trace.bytes(0) == trace.bytes(1) == 8


def test_the_kth_call_of_a_group_meets_the_kth_call_of_the_same_group():
    own = [collective(0, 1, group="1"), collective(2, 9, sequence=7)]
    other = [collective(5, 9, sequence=7), collective(9, 10, sequence=8)]
    trace = merge_ranks({0: own, 1: other}, "measured")
    assert times(trace.select(kind="wait")) == [("wait", 2, 5)]


def test_a_group_made_anew_starts_a_new_count():
    groups = ("gloo:0.0", "gloo:0.1")
    own, other = (
        [collective(*at, group=group) for group, at in zip(groups, spans)]
        for spans in (((0, 2), (4, 9)), ((1, 2), (6, 9)))
    )
    trace = merge_ranks({0: own, 1: other}, "")
    assert times(trace.select(0, "wait")) == [("wait", 0, 1), ("wait", 4, 6)]


def test_a_rank_that_made_fewer_calls_leaves_the_others_calls_whole():
    own = [collective(0, 1), collective(2, 3, sequence=2)]
    trace = merge_ranks({0: own, 1: [collective(0, 1)], 2: []}, "measured")
    assert times(trace.select(0)) == [("communicate", 0, 1), ("communicate", 2, 3)]


def message(send, receive, *, route="0: (0, 1) 0"):
    """The events of two ranks of which one sends and one receives, in these times."""
    marks = [
        Mark("communicate", name, *at, 8, group=route, sequence=1)
        for name, at in (("send", send), ("recv", receive))
    ]
    trace = merge_ranks({0: marks[:1], 1: marks[1:]}, "measured")
    return [times(trace.select(rank)) for rank in (0, 1)]


def test_who_receives_waits_until_the_sender_has_come():
    assert message((3, 4), (0, 5)) == [
        [("communicate", 3, 4)],
        [("wait", 0, 3), ("communicate", 3, 4)],
    ]


def test_who_sends_waits_until_the_receiver_has_come():
    # and learns late that the message has arrived, as it computes meanwhile
    assert message((0, 9), (3, 4)) == [
        [("wait", 0, 3), ("communicate", 3, 4)],
        [("communicate", 3, 4)],
    ]


def test_a_message_that_goes_into_a_buffer_waits_for_nobody():
    assert message((0, 1), (3, 4)) == [[("communicate", 0, 1)], [("communicate", 3, 4)]]


def test_a_message_of_unknown_route_is_not_split():
    whole = [[("communicate", 0, 1)], [("communicate", 0, 4)]]
    assert message((0, 1), (0, 4), route=None) == whole


def test_waiting_for_a_message_is_not_hidden_communication():
    events = [compute(0, 0, 8), Event(0, "wait", "recv", 1, 5)]
    events += [Event(0, "communicate", "recv", 5, 6), Event(0, "wait", "barrier", 7, 9)]
    assert Trace(tuple(events), "").overlap(0) == 2


def test_ranks_that_begin_late_are_compared_from_the_last_begin_on():
    own = [Mark("begin", "training step 3", 1, 1), Mark("compute", "forward", 1, 3)]
    other = [Mark("begin", "training step 4", 2, 2), Mark("compute", "forward", 2, 3)]
    trace = merge_ranks({0: own, 1: other}, "measured")
    assert times(trace) == [("compute", 0, 1)]
    assert trace.source == "measured, from training step 4 on"


def test_zero_is_the_earliest_start_of_all_ranks():
    marks = {rank: [Mark("compute", "matmul", 5 + rank, 9)] for rank in range(2)}
    assert times(merge_ranks(marks, "")) == [("compute", 0, 4), ("compute", 1, 4)]


def test_no_events_make_an_empty_trace():
    trace = merge_ranks({0: [], 1: []}, "measured: 2 ranks")
    assert (len(trace), trace.span, trace.busy(0)) == (0, 0, 0)


def test_a_cut_ends_every_rank_and_is_told_in_the_source():
    own = [Mark("compute", "forward", 0, 1), Mark("cut", "9 operators", 2.5, 2.5)]
    other = [Mark("compute", "forward", start, start + 1) for start in (1, 3)]
    with pytest.warns(UserWarning, match="its limit of 9 operators"):
        trace = merge_ranks({0: own, 1: other}, "measured: 2 ranks")
    assert times(trace) == [("compute", 0, 1), ("compute", 1, 2)]
    assert trace.source == "measured: 2 ranks, cut after 2.5 s (9 operators)"


def test_events_and_marks_survive_pickling():
    values = compute("vgpu:1", 0, 1), collective(0, 1)
    assert pickle.loads(pickle.dumps(values)) == values


@pytest.mark.parametrize(
    "size, text", [(0, "ms>"), (8, ", 8 B>"), (4_198_400, ", 4.2 MB>")]
)
def test_an_event_shows_itself_in_one_line(size, text):
    shown = repr(Event(1, "communicate", "all_reduce", 0.001, 0.0035, size))
    assert shown.startswith("<rank 1: communicate all_reduce, 1.00–3.50 ms")
    assert shown.endswith(text)


def test_a_trace_shows_a_row_per_rank():
    trace = merge_ranks({0: [collective(0, 0.2)], 1: [collective(0.1, 0.2)]}, "a<b")
    html = trace._repr_html_()
    cells = ["100.00", "100.00", "0.000", "0%", "0.00 ms"]
    row = "<td><b>rank 0</b></td><td>0.00</td>" + "".join(
        f"<td>{c}</td>" for c in cells
    )
    assert row in html
    assert html.count("<b>rank") == 2
    assert "a&lt;b" in html
    assert repr(trace) == "<Trace a<b: 3 events, 2 ranks, 200.00 ms>"


def test_the_export_holds_every_event_in_microseconds(tmp_path):
    marks = {0: [collective(0, 2)], 1: [collective(1, 2)]}
    path = merge_ranks(marks, "measured: 2 ranks").save(tmp_path / "trace.json")
    document = json.loads(path.read_text())
    slices = [row for row in document["traceEvents"] if row["ph"] == "X"]
    found = [(row["pid"], row["cat"], row["ts"], row["dur"]) for row in slices]
    second = 1_000_000
    assert (0, "wait", 0, second) in found
    assert (0, "communicate", second, second) in found
    assert (1, "communicate", second, second) in found
    assert document["otherData"]["source"] == "measured: 2 ranks"


def test_the_export_names_ranks_and_kinds(tmp_path):
    trace = Trace((compute("vgpu:1", 0, 1), compute(0, 0, 1)), "modelled: 2 devices")
    rows = json.loads(trace.save(tmp_path / "t.json").read_text())["traceEvents"]
    names = {row["args"].get("name") for row in rows if row["ph"] == "M"}
    assert {"rank 0 (modelled: 2 devices)", "vgpu:1 (modelled: 2 devices)"} <= names
    assert "compute" in names


def test_the_export_puts_overlapping_events_on_different_lines(tmp_path):
    events = (compute(0, 0, 2), compute(0, 1, 3), compute(0, 3, 4))
    path = Trace(events, "measured").save(tmp_path / "trace.json")
    rows = json.loads(path.read_text())["traceEvents"]
    first, second, third = (row["tid"] for row in rows if row["ph"] == "X")
    lines = {row["ts"]: row["tid"] for row in rows if row["ph"] == "X"}
    assert len({first, second, third}) == 2
    assert lines[0] == lines[3e6] != lines[1e6]


def step_of(rank, start):
    """Three events of one training step of four seconds, its optimizer in two parts."""
    names = ("forward", "backward", "optimizer", "optimizer")
    return [
        compute(rank, start + i, start + i + 1, name) for i, name in enumerate(names)
    ]


def test_a_step_goes_from_the_end_of_an_optimizer_to_the_end_of_the_next():
    events = [e for start in (0, 4, 10) for e in step_of(0, start)]
    late = [e for start in (1, 5, 11) for e in step_of(1, start)]
    trace = Trace((*events, *late), "measured")
    second, third = trace.steps()
    assert [(e.start, e.stop) for e in second.select(rank=0)][0] == (4, 5)
    assert (second.events[-1].stop, third.events[-1].stop) == (9, 15)
    assert len(second.select(rank=1, name="optimizer")) == 3  # the end of the first


def test_a_trace_without_an_optimizer_has_no_steps():
    assert Trace((compute(0, 0, 1),), "measured").steps() == []


def test_calls_are_counted_by_name():
    calls = [Event(0, "communicate", name, 0, 1, 8) for name in "aab"]
    other = Event(1, "communicate", "a", 0, 1, 8)
    trace = Trace((*calls, other, compute(0, 0, 1)), "measured")
    assert (trace.calls(), trace.calls(1)) == ({"a": 2, "b": 1}, {"a": 1})


def test_bytes_that_moved_are_added_by_name():
    copies = [Transfer(name, "gpu:0", "gpu:1", 8, 0, 1) for name in "aab"]
    assert Trace((), "modelled", tuple(copies)).moved() == {"a": 16, "b": 8}


def test_the_bubble_is_the_share_in_which_a_rank_does_not_compute():
    trace = Trace((compute(0, 0, 4), compute(1, 2, 4)), "measured")
    assert trace.bubble == pytest.approx(0.25)
