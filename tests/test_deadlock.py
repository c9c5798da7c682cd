"""A deadlock is explained: which collective differs, and what to change."""

from dataclasses import replace

import pytest
import torch

from course_lib.launching.watchdog import explain
from course_lib.launching.watchdog.responder import Pending
from course_lib.launching.watchdog.stall import RankState
from course_lib.stacks import Frame
from course_lib.tracing.flight_recorder import Call


def called(*names, group="0"):
    """Collectives as the flight recorder tells them: `all_reduce f32[10]`."""
    parts = [name.partition(" ")[::2] for name in names]
    return tuple(
        Call(group, number, name, carries, False)
        for number, (name, carries) in enumerate(parts, 1)
    )


WORLD = {"0": list(range(16))}


def waits(rank, call, *, line=5, calls=(), function="train", members=WORLD, **more):
    frames = (Frame("t.py", line, function),)
    return RankState(rank, "waits", call, frames, calls, members, **more)


def test_the_first_collective_that_differs_is_named():
    both = ("broadcast f32[3]",)
    text = explain.reason(
        [
            waits(0, "all_reduce", calls=called(*both, "all_reduce f32[10]")),
            waits(1, "barrier", line=6, calls=called(*both, "barrier")),
        ]
    )
    assert "Collective 2 differs: rank 0 calls all_reduce of f32[10]," in text
    assert "rank 1 calls barrier. All ranks must make the same" in text
    assert text.endswith(
        "Does an `if`, a shorter loop or a caught error keep rank 1 from line 5?"
    )


def test_a_rank_in_which_a_library_waits_has_no_line_to_ask_about():
    states = [waits(n, "barrier", line=5 + n) for n in range(2)]
    library = (Frame(f"{torch.__path__[0]}/nn/modules/module.py", 1, "forward"),)
    states[0] = replace(states[0], call="all_reduce", frames=library)
    assert "rank 0 calls all_reduce, rank 1 calls barrier" in explain.reason(
        [replace(s, calls=called(s.call)) for s in states]
    )


def test_ranks_that_agree_are_told_in_one():
    states = [waits(n, "barrier", calls=called("barrier")) for n in range(4)]
    states[2] = waits(2, "all_reduce", calls=called("all_reduce f32[1]"))
    text = explain.reason(states)
    assert "ranks 0, 1, 3 call barrier, rank 2 calls all_reduce of f32[1]" in text


def test_different_sizes_are_a_difference_where_all_must_be_alike():
    sizes = [waits(0, "all_reduce", calls=called("all_reduce f32[10]"))]
    sizes.append(waits(1, "all_reduce", calls=called("all_reduce f32[9]")))
    assert "of f32[10], rank 1 calls all_reduce of f32[9]" in explain.reason(sizes)


def test_another_shape_of_as_many_numbers_is_no_difference():
    shapes = ("all_reduce f32[10]", "all_reduce f32[5, 2]")
    states = [waits(n, "all_reduce", calls=called(s)) for n, s in enumerate(shapes)]
    assert "differs" not in explain.reason(states)
    assert "the same group, src or dst" in explain.reason(states)


def test_nccl_gathers_tensors_of_different_sizes():
    sizes = [called(f"all_gather f32[{n}]")[0] for n in (3, 4)]
    for backend, differ in (("gloo", True), ("nccl", False)):
        calls = [(call._replace(backend=backend),) for call in sizes]
        states = [waits(n, "all_gather", calls=c) for n, c in enumerate(calls)]
        assert ("differs" in explain.reason(states)) == differ


def test_ranks_that_name_other_groups_are_told_whose():
    states = [waits(n, "new_group", grouped=([0, 3],)) for n in (0, 3)]
    states += [RankState(n, "returned", grouped=([1, 2],)) for n in (1, 2)]
    assert explain.reason(states) == (
        "Call 1 of new_group differs: ranks 0, 3 name [0, 3], ranks 1, 2 name [1, 2]."
        " Every rank must call new_group for every group, in the same order, also for"
        " one that it is not in."
    )


def message(rank, call, other, tag=0):
    told = Pending(call, other, tag, "0", "f32[4]")
    return waits(rank, call, message=told)


def test_messages_in_a_circle_are_followed_round_it():
    states = [message(0, "send", 2), message(1, "recv", 0), message(2, "recv", 1)]
    states.append(message(3, "recv", 0))  # waits, and is in no circle
    text = explain.reason(states)
    assert text.startswith(
        "A circle: rank 0 waits until its message is taken by rank 2, rank 2 waits for"
        " a message from rank 1, rank 1 waits for a message from rank 0. Each waits"
    )
    assert "rank 3" not in text


def test_messages_that_differ_in_their_tag_are_no_circle():
    states = [message(0, "send", 1, tag=5), message(1, "recv", 0, tag=6)]
    assert explain.reason(states) == (
        "rank 0 sends to rank 1 with tag 5, and rank 1 waits for tag 6."
    )


def test_messages_of_which_no_more_is_known_do_not_pair_up():
    states = [message(0, "send", 1), message(1, "recv", 2), message(2, "recv", None)]
    assert explain.reason(states).startswith("The sends and receives do not pair up")


def test_a_message_sent_without_a_wait_is_named():
    sender = waits(0, "barrier", calls=called("barrier"), unwaited=(1,))
    text = explain.reason([sender, message(1, "recv", 0)])
    assert text.startswith("rank 0 sent to rank 1 by isend, and did not wait for it")
    other = explain.reason([replace(sender, unwaited=(2,)), message(1, "recv", 0)])
    assert "nobody will send to it" in other


def test_a_collective_that_a_rank_has_not_called_is_named():
    more = called("barrier", "barrier")
    states = [waits(0, "barrier", calls=more), waits(1, "recv", calls=more[:1])]
    states.append(waits(2, "barrier", calls=more))
    assert "nobody will send to it" in explain.reason(states)
    states[1] = waits(1, "wait()", calls=more[:1])
    text = explain.reason(states)
    assert "Collective 2 differs: ranks 0, 2 call barrier, rank 1 calls none" in text


def test_a_key_that_nobody_sets_is_named():
    states = [waits(0, "store.get('k')"), waits(1, "barrier", calls=called("barrier"))]
    text = explain.reason([*states, RankState(2, "returned")])
    assert text.startswith("rank 0 waits for a key that no rank has set. Look for its")


def test_a_group_of_its_own_is_named():
    groups = {"1": [0, 1]}
    a, c = called("barrier", group="1"), called("all_reduce f32[1]", group="1")
    first = waits(0, "barrier", calls=a, members=groups)
    text = explain.reason([first, waits(1, "all_reduce", calls=c, members=groups)])
    assert "Collective 1 of group 1 differs" in text


def test_a_member_of_a_group_that_has_not_called_is_named_and_others_are_not():
    world, groups = called("broadcast f32[4]"), {"0": [0, 1, 2], "1": [1, 2]}
    states = [waits(n, "broadcast", calls=world, members=groups) for n in range(3)]
    in_group = called("broadcast f32[4]", group="1")
    states[1] = waits(1, "broadcast", line=9, calls=in_group, members=groups)
    text = explain.reason(states)
    assert "Collective 1 differs: ranks 0, 2 call broadcast of f32[4], rank 1" in text
    assert text.endswith(
        "calls none. All ranks must make the same collective calls in the same order."
    )


def test_calls_that_a_rank_has_forgotten_are_not_compared():
    long = tuple(Call("0", n, "all_reduce", "f32[4]", True) for n in range(1, 8))
    ends = [Call("0", 8, name, "", False) for name in ("barrier", "all_gather")]
    states = [waits(0, "barrier", calls=(*long[4:], ends[0]))]
    states.append(waits(1, "all_gather", calls=(*long, ends[1])))
    assert "Collective 8 differs" in explain.reason(states)


def test_a_rank_that_could_not_answer_is_not_blamed():
    states = [waits(0, "barrier", calls=called("barrier"))]
    states += [waits(1, "all_reduce", members={}), waits(2, "barrier", calls=())]
    assert "rank 0 calls barrier, rank 2 calls none" in explain.reason(states)


def test_a_call_that_is_done_on_some_ranks_hints_at_its_root():
    first = Call("0", 1, "broadcast", "f32[4]", False)
    done = first._replace(done=True)
    later = (done, Call("0", 2, "barrier", "", False))
    states = [waits(0, "broadcast", calls=(first,))]
    states.append(waits(1, "barrier", line=6, calls=later))
    assert explain.reason(states) == (
        "Collective 1, broadcast, is done on rank 1 and not on rank 0: do all pass the"
        " same src, dst and group?"
    )


def test_an_exception_that_a_rank_handles_stands_beside_its_line():
    found = explain.table([waits(1, "barrier", error="ValueError: no data")])
    assert found[0].endswith("in train (while it handles ValueError: no data)")


def test_a_rank_that_returned_sends_nothing_more():
    text = explain.reason([waits(0, "recv"), RankState(1, "returned")])
    assert "rank 0 waits for a message: each send needs a recv" in text


@pytest.mark.parametrize(
    "calls, sentence",
    [
        (("send", "send", "send"), "All send and nobody receives"),
        (("recv", "recv", "recv"), "All wait to receive and nobody sends"),
        (("send", "recv", "recv"), "The sends and receives do not pair up"),
        (("barrier", "recv", "barrier"), "rank 1 waits in recv, and ranks 0, 2 in"),
        (("recv", "send", "barrier"), "and rank 1 in send, rank 2 in barrier: nobody"),
        (("wait() of recv",) * 3, "All wait to receive and nobody sends"),
        (("init_process_group",) * 3, "is rank= another one on each of them"),
        (("monitored_barrier", "barrier", "barrier"), "They wait in different calls"),
        (("send", "barrier", "barrier"), "nobody will recv from it"),
        (("init_process_group", "barrier", "barrier"), "when all 3 ranks have called"),
    ],
)
def test_each_pattern_has_a_sentence_of_its_own(calls, sentence):
    states = [waits(rank, call) for rank, call in enumerate(calls)]
    assert sentence in explain.reason(states)


def test_a_rank_that_returned_is_the_reason():
    states = [waits(0, "barrier"), RankState(1, "returned", calls=called("barrier"))]
    text = explain.reason(states)
    assert "rank 1 has returned after 1 collective call, and rank 0 waits for" in text


def test_a_stopped_rank_is_the_reason():
    text = explain.reason([waits(0, "barrier"), RankState(1, "stopped")])
    assert "rank 1 is stopped: a signal (SIGSTOP or SIGTSTP)" in text


def test_of_ranks_that_moved_nothing_is_said_to_differ():
    both = [waits(0, "barrier"), waits(1, "all_reduce")]
    assert "same order" in explain.reason(both)
    assert explain.reason(both, moved=None) == ""
    assert explain.reason(both, moved=True).startswith("It did not stand still:")


def test_a_rank_at_work_is_where_to_look_first():
    works = RankState(1, "works", frames=(Frame("t.py", 7, "train"),))
    text = explain.reason([waits(0, "barrier"), works])
    assert "rank 0 waits for rank 1: look at the line of rank 1 first" in text


def test_a_rank_that_has_not_begun_is_waited_for():
    states = [waits(0, "barrier"), RankState(1, "starts")]
    assert explain.table(states)[1] == "rank 1 has not begun"
    assert "rank 0 waits for rank 1, which has not begun" in explain.reason(states)


def test_a_rank_at_its_end_is_told_with_its_place():
    ends = RankState(0, "ends", frames=(Frame("t.py", 5, "late"),))
    assert explain.table([ends]) == ["rank 0 is at the end, in t.py, line 5, in late"]


def test_ranks_that_all_work_have_no_reason():
    assert explain.reason([RankState(0, "works"), RankState(1, "works")]) == ""


def test_no_line_is_asked_for_where_ranks_are_in_different_functions():
    a = waits(0, "barrier", calls=called("barrier"), function="a")
    b = waits(1, "all_reduce", calls=called("all_reduce"), function="b", line=9)
    assert explain.reason([a, b]).endswith("in the same order.")


def test_ranks_at_one_place_share_a_line_of_the_table():
    states = [waits(n, "barrier") for n in range(15)] + [RankState(15, "stopped")]
    assert explain.table(states) == [
        "ranks 0-14 wait in barrier: t.py, line 5, in train",
        "rank 15 is stopped",
    ]


def test_processes_that_a_rank_started_stand_below_it():
    add = (Frame("t.py", 9, "add"),)
    one = RankState(0, "works", "", (Frame("t.py", 5, "train"),), forked=(add, add))
    assert explain.table([one]) == [
        "rank 0 was in t.py, line 5, in train",
        "  2 processes that it started: t.py, line 9, in add",
    ]


def test_processes_that_have_ended_are_told_with_the_way_they_went():
    one = RankState(
        0, "works", "", (Frame("t.py", 5, "train"),), ended=(1, -9, -9, -35)
    )
    assert explain.table([one])[1:] == [
        "  1 process that it started: ended with exit code 1",
        "  2 processes that it started: killed by SIGKILL",
        "  1 process that it started: killed by signal 35",
    ]
