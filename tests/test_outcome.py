"""Which rank explains a failed launch, decided from plain data."""

import signal
import threading
from dataclasses import replace

from course_lib.launching.failures import RankExit, culprit, explain, settled
from course_lib.launching.watchdog.stall import RankState
from course_lib.stacks import Frame
from course_lib.tracing.flight_recorder import Call

RETURNED = {"status": "returned"}
LOST = "[pair.cc:553] Connection closed by peer [127.0.0.1]:26006"


def raised(rank, at, *, text="oops", kind="ValueError", under=()):
    record = {"status": "raised", "kind": kind, "text": text, "frames": [], "at": at}
    return RankExit(rank, 1, at + 0.1, record | {"chain": [(kind, text), *under]})


def lost(rank, at):
    return raised(rank, at, text=LOST, kind="RuntimeError")


def message(*ends, **states):
    return str(error(*ends, **states))


def error(*ends, stacks=None, num_calls=None, world_size=2):
    num_calls = num_calls or dict.fromkeys(range(world_size), 0)
    states = [
        RankState(
            rank,
            "returned",
            frames=tuple((stacks or {}).get(rank, ())),
            calls=(Call("0", count, "all_reduce", "f32[1]", done=True),),
        )
        for rank, count in num_calls.items()
    ]
    return explain(list(ends), states, name="train")


def test_a_launch_whose_ranks_all_returned_has_no_culprit():
    assert (
        culprit([RankExit(0, 0, 1.0, RETURNED), RankExit(1, 0, 1.0, RETURNED)]) is None
    )


def test_the_first_to_fail_is_the_culprit():
    assert culprit([raised(0, at=2.0), raised(1, at=1.0)]).rank == 1


def test_a_lost_connection_is_not_the_reason_when_another_rank_was_killed():
    # the peers of a killed rank notice before the agent does
    ends = [lost(0, at=1.0), RankExit(1, -9, 1.1)]
    assert culprit(ends).rank == 1


def test_a_lost_connection_alone_waits_for_its_reason():
    assert not settled([lost(0, at=1.0)])
    assert not settled([lost(0, at=1.0), lost(2, at=1.0)])
    assert settled([lost(0, at=1.0), RankExit(1, 0, 1.0, RETURNED)])


def test_a_lost_connection_that_was_raised_again_is_still_one():
    again = raised(0, at=1.0, text="training failed", under=[("RuntimeError", LOST)])
    assert culprit([again, RankExit(1, -9, 1.1)]).rank == 1


def test_a_connection_of_the_learners_own_is_a_failure_of_its_own():
    own = raised(0, at=1.0, text="Connection refused", kind="URLError")
    assert "raised URLError: Connection refused" in message(
        own, RankExit(1, 0, 1.0, RETURNED)
    )


def test_a_crash_after_returning_is_a_failure():
    assert "exit code 3 after train returned" in message(RankExit(1, 3, 1.0, RETURNED))
    assert "SIGSEGV" in message(RankExit(1, -11, 1.0, RETURNED))


def test_ranks_that_raised_the_same_are_counted():
    text = message(
        raised(0, at=1.0), raised(1, at=1.1), raised(2, at=1.2), world_size=3
    )
    assert "rank 0 of 3 raised ValueError: oops" in text
    assert "ranks 1, 2 raised the same." in text


def test_a_failure_of_its_own_needs_no_more_waiting():
    assert settled([raised(1, at=1.0)])
    assert not settled([RankExit(0, 0, 1.0, RETURNED)])


def test_a_rank_that_returned_early_is_named():
    text = message(lost(0, at=1.0), RankExit(1, 0, 1.0, RETURNED))
    assert (
        "rank 0 of 2 lost its connection: rank 1 had returned from train already"
        in text
    )
    assert "same collective calls" in text


def test_signals_are_named_with_what_they_mean():
    assert "killed by SIGSEGV (a crash in compiled code)" in message(
        RankExit(0, -signal.SIGSEGV, 1.0)
    )
    assert "out-of-memory killer" in message(RankExit(0, -signal.SIGKILL, 1.0))
    assert "killed by signal 99" in message(RankExit(0, -99, 1.0))


def test_a_crash_of_several_ranks_alone_is_asked_about_their_tensors():
    crash = RankExit(0, -signal.SIGABRT, 1.0)
    question = ": do all ranks pass tensors of the same shape and type?"
    told = str(error(crash))
    assert f"SIGABRT (a crash in compiled code{question})" in told
    assert str(error(crash, world_size=1)) == told.replace(question, "").replace(
        "rank 0 of 2", "rank 0 of 1"
    )


def test_an_exit_code_is_named():
    assert "rank 1 of 2 ended with exit code 7 before train returned" in message(
        RankExit(1, 7, 1.0)
    )


def test_sys_exit_zero_before_returning_is_a_failure():
    end = RankExit(1, 0, 1.0, {"status": "exited", "exit": 0, "frames": [], "at": 1.0})
    assert "rank 1 of 2 left by sys.exit(0) before train returned" in message(end)


def test_ranks_without_a_line_of_the_learners_are_told_with_the_reason():
    words = ("returned", "starts", "ends", "works", "stopped", "returned")
    states = [RankState(rank, word) for rank, word in enumerate(words)]
    library = Frame(threading.__file__, 7, "_shutdown")
    states[2] = replace(states[2], frames=(library,))
    text = str(explain([raised(0, at=1.0)], states, name="train"))
    assert text.split("\n\n")[1].splitlines() == [
        "rank 1 had not begun train yet",
        "rank 2 had left train already",
        "rank 3 did not say in time where it was",
        "rank 4 had been halted by a signal (SIGSTOP or SIGTSTP)",
    ]


def test_ranks_that_still_ran_are_placed():
    stacks = {1: [Frame("train.py", 7, "train"), Frame(signal.__file__, 1, "wait")]}
    assert "rank 1 was stopped in train.py, line 7, in train" in message(
        raised(0, 1.0), stacks=stacks
    )


def test_ranks_that_were_ending_are_not_placed():
    stacks = {1: [Frame("<frozen importlib>", 7, "load")]}
    assert "rank 1" not in message(raised(0, 1.0), stacks=stacks)


def kind(*ends):
    return error(*ends).kind


def test_the_error_tells_the_kind_of_failure_to_programs():
    assert kind(raised(0, at=1.0)) == "ValueError"
    assert kind(lost(0, at=1.0), RankExit(1, 0, 1.0, RETURNED)) == "lost"
    assert kind(RankExit(0, -9, 1.0)) == "killed"
    assert kind(RankExit(0, 7, 1.0)) == "left"


def test_the_error_holds_where_the_other_ranks_were():
    stacks = {1: [Frame("train.py", 7, "train")]}
    found = error(raised(0, at=1.0), stacks=stacks)
    assert found.where == stacks
