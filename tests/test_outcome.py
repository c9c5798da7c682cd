"""Which rank explains a failed launch, decided from plain data."""

import signal
import threading
from dataclasses import replace

import pytest
from torch.distributed import distributed_c10d as c10d

from course_lib.launching.failures import RankExit, culprit, explain, settled
from course_lib.launching.protocol import Cause, Record
from course_lib.launching.watchdog.stall import RankState
from course_lib.stacks import Frame
from course_lib.tracing.flight_recorder import Call

RETURNED = Record("returned")
LOST = "[pair.cc:553] Connection closed by peer [127.0.0.1]:26006"
LOSS = Cause("RuntimeError", LOST)
LINE = Frame("train.py", 7, "train")


def raised(rank, at, *, text="oops", kind="ValueError", under=(), frames=()):
    record = Record("raised", kind=kind, text=text, frames=tuple(frames), at=at)
    chain = (Cause(kind, text), *under)
    return RankExit(rank, 1, at + 0.1, record._replace(chain=chain))


def lost(rank, at, frames=()):
    return raised(rank, at, text=LOST, kind="RuntimeError", frames=frames)


def message(*ends, **states):
    return str(error(*ends, **states))


def error(*ends, stacks=None, num_calls=None, world_size=2):
    num_calls = num_calls or dict.fromkeys(range(world_size), 0)
    over = {end.rank for end in ends}
    states = [
        RankState(
            rank,
            "returned" if rank in over else "works",
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
    again = raised(0, at=1.0, text="training failed", under=[LOSS])
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
    told = message(crash)
    assert f"SIGABRT (a crash in compiled code{question})" in told
    assert question not in message(crash, world_size=1)


def test_an_exit_code_is_named():
    assert "rank 1 of 2 ended with exit code 7 before train returned" in message(
        RankExit(1, 7, 1.0)
    )


def test_sys_exit_zero_before_returning_is_a_failure():
    end = RankExit(1, 0, 1.0, Record("exited", exit=0, at=1.0))
    assert "rank 1 of 2 left by sys.exit(0) before train returned" in message(end)


def test_an_error_has_the_parts_of_its_message():
    library = Frame(threading.__file__, 9, "run")
    end = raised(0, 1.0, text="oops\nmore", frames=[LINE, library])
    places = LINE, ("train.py", 9, "<lambda>"), library
    texts = (f'  File "{file}", line {line}, in {name}' for file, line, name in places)
    found = error(replace(end, record=end.record._replace(details="\n".join(texts))))
    assert found.what == "raised ValueError: oops\nmore" and found.text == "oops\nmore"
    assert found.own == (LINE, ("train.py", 9, "<lambda>"))
    assert found.raiser == "train" and found.kind == "ValueError" and found.rank == 0
    assert str(found).split("\n") == [
        *found.head.split("\n"),
        "",
        "  train.py, line 7, in train",
        found.folded,
        "",
        *found.notes,
        "The whole traceback: cl.last_error().details",
    ]
    assert found.notes == ("rank 1 did not answer in time",)


EXITED = Record("exited", exit=3, frames=(LINE,))
UNSENDABLE = Record("unsendable", kind="generator", text="no")
IN_ALL_REDUCE = (LINE, Frame(c10d.__file__, 9, "all_reduce"))


def others(*ends, **options):
    """The lines of the message that tell of the other ranks."""
    return message(*ends, **options).split("\n\n")[-1].splitlines()


def test_a_rank_that_lost_its_connection_in_a_collective_is_placed_there():
    ends = [raised(0, 1.0), *(lost(rank, 1.1, IN_ALL_REDUCE) for rank in (1, 2))]
    assert others(*ends, world_size=3) == [
        "ranks 1, 2 lost the connection in all_reduce: train.py, line 7, in train"
    ]


def test_another_error_of_another_rank_is_shown_in_short():
    text = "sample 1 is bad:\n" + 200 * "x"
    ends = [raised(0, 1.0, text="sample 0 is bad"), raised(1, 1.1, text=text)]
    (line,) = others(*ends)
    assert line.startswith("rank 1 raised ValueError: sample 1 is bad: xxx")
    assert len(line) < 180


def test_an_error_that_follows_from_a_lost_connection_is_told_as_such():
    under = [LOSS]
    own = raised(1, 1.1, text="training failed", under=under, frames=[LINE])
    assert others(raised(0, 1.0), own) == [
        "rank 1 raised ValueError: training failed (train.py, line 7, in train),"
        " having lost the connection"
    ]


@pytest.mark.parametrize(
    "code, record, words",
    [
        (0, RETURNED, "had left train already"),
        (-15, Record(), "was killed by SIGTERM before train returned"),
        (7, Record(), "ended with exit code 7 before train returned"),
        (
            3,
            EXITED,
            "left by sys.exit(3) before train returned (train.py, line 7, in train)",
        ),
    ],
)
def test_another_rank_that_ended_is_told_with_the_way_it_went(code, record, words):
    assert others(raised(0, 1.0), RankExit(1, code, 1.5, record)) == [f"rank 1 {words}"]


def test_several_ranks_of_which_the_same_is_told_share_a_line():
    ends = [raised(0, 1.0), *(RankExit(rank, -15, 1.1) for rank in (1, 2, 3))]
    assert others(*ends, world_size=4) == [
        "ranks 1-3 were killed by SIGTERM before train returned"
    ]


@pytest.mark.parametrize(
    "code, record, words",
    [
        (1, UNSENDABLE, "returned the same."),
        (-11, Record(), "ended the same way."),
        (3, EXITED, "ended the same way."),
    ],
)
def test_ranks_that_ended_as_the_reported_one_are_counted(code, record, words):
    ends = [RankExit(rank, code, 1.0, record) for rank in (0, 1, 2)]
    assert others(*ends, world_size=3) == [f"ranks 1, 2 {words}"]


def test_a_rank_that_left_because_another_did_is_told_from_it():
    after = EXITED._replace(chain=(Cause("SystemExit", "3"), LOSS))
    (line,) = others(RankExit(0, 3, 1.0, EXITED), RankExit(1, 3, 1.1, after))
    assert line.endswith("(train.py, line 7, in train), having lost the connection")


def test_of_the_rank_that_is_reported_nothing_else_is_said():
    # it was seen to end only while the others were asked
    states = [RankState(0, "ends"), RankState(1, "returned")]
    text = str(explain([raised(0, 1.0), raised(1, 1.1)], states, name="train"))
    assert text.split("\n\n")[1:] == ["rank 1 raised the same."]


def test_ranks_that_returned_and_so_explain_the_failure_are_named_once():
    text = message(lost(0, 1.0), RankExit(1, 0, 1.0, RETURNED))
    assert text.count("rank 1") == 1


def test_ranks_without_a_line_of_the_learners_are_told_with_the_reason():
    words = ("returned", "starts", "ends", "works", "stopped", "raises")
    states = [RankState(rank, word) for rank, word in enumerate(words)]
    library = Frame(threading.__file__, 7, "_shutdown")
    states[2] = replace(states[2], frames=(library,))
    text = str(explain([raised(0, at=1.0)], states, name="train"))
    assert text.split("\n\n")[1].splitlines() == [
        "rank 1 had not begun train yet",
        "rank 2 had left train already",
        "rank 3 did not answer in time",
        "rank 4 had been halted by a signal (SIGSTOP or SIGTSTP)",
        "rank 5 had raised an exception, and did not say in time which",
    ]


def test_ranks_that_still_ran_are_placed():
    stacks = {1: [Frame("train.py", 7, "train"), Frame(signal.__file__, 1, "wait")]}
    assert "rank 1 was stopped in train.py, line 7, in train" in message(
        raised(0, 1.0), stacks=stacks
    )


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
