"""A rank answers where it is through a thread of its own, or by faulthandler."""

import math
import os
import tempfile
import threading

import pytest

from course_lib.launching.watchdog import responder
from course_lib.launching.watchdog.probe import Inquiry, Witness
from course_lib.launching.watchdog.responder import Answer
from course_lib.system import processes
from course_lib.tracing.flight_recorder import Call
from tests.leftovers import becomes


@pytest.fixture
def witness():
    with tempfile.TemporaryFile("w+b") as file:
        made = Witness(file)
        yield made
        made.close()


@pytest.fixture
def rank(monkeypatch, witness):
    """This process, as the rank that the witness is asked about."""
    monkeypatch.setattr(responder, "_socket", os.dup(witness.files()[1]))
    monkeypatch.setattr(responder, "_started", False)
    monkeypatch.setattr(responder, "_limit", math.inf)
    monkeypatch.setattr(responder, "_rank", os.getpid())
    monkeypatch.delenv("TORCH_FR_BUFFER_SIZE", raising=False)
    yield responder
    witness.close()
    os.close(responder._socket)
    assert becomes(lambda: "course_lib" not in [t.name for t in threading.enumerate()])


def answered(witness):
    witness.listen()
    return not witness.waits


def test_a_rank_without_a_process_group_is_not_waited_for(witness):
    witness.ask()
    assert not witness.waits


def test_a_rank_tells_the_stacks_of_its_threads_the_main_one_last(rank, witness):
    rank.start(1800.0)
    assert becomes(lambda: witness.ask() or witness.waits)
    assert becomes(lambda: answered(witness))
    assert witness.answer.patience == 1800.0
    functions = [frame.function for frame in witness.answer.stacks[-1]]
    assert "test_a_rank_tells_the_stacks_of_its_threads_the_main_one_last" in functions
    assert not any(f.function == "_answer" for s in witness.answer.stacks for f in s)


def test_the_patience_of_its_last_group_counts(rank, witness):
    rank.start(5.0)
    rank.start(1800.0)
    assert becomes(lambda: witness.ask() or witness.waits)
    assert becomes(lambda: answered(witness))
    assert witness.answer.patience == 1800.0


def test_a_process_that_the_rank_forked_does_not_speak_for_it(rank, monkeypatch):
    monkeypatch.setattr(rank, "_rank", os.getppid())
    rank.start(1800.0)
    assert "course_lib" not in [thread.name for thread in threading.enumerate()]


def test_an_exception_that_the_main_thread_handles_is_told(rank, witness):
    rank.start(1800.0)
    try:
        raise ValueError("no data")
    except ValueError:
        assert becomes(lambda: witness.ask() or witness.waits)
        assert becomes(lambda: answered(witness))
    assert witness.answer.error == "ValueError: no data"


def test_a_rank_that_ends_tells_its_last_calls_unasked(rank, witness, monkeypatch):
    call = Call("0", 3, "barrier", "", True)
    monkeypatch.setattr(rank.flight_recorder, "read", lambda entries: [call])
    rank.start(1800.0)
    rank.farewell()
    assert becomes(lambda: witness.listen() or witness.answer.calls == (call,))


def test_a_rank_whose_socket_is_gone_ends_all_the_same(rank, witness):
    rank.start(1800.0)
    witness.close()
    rank.farewell()


def test_a_garbled_answer_is_none(witness):
    witness._theirs.sendall(b"\n[[1, 2\n")
    witness.listen()
    assert witness.answer == Answer()


@pytest.fixture
def activity(monkeypatch):
    """What /proc tells of the one rank."""
    seen = [processes.Activity("R", 1.0)]
    monkeypatch.setattr(processes, "activity", lambda pid: seen[0])
    return seen


@pytest.fixture
def inquiry(witness):
    made = Inquiry(lambda: None)
    made.witnesses.append(witness)
    made.pids[0] = 1
    return made


def test_a_rank_arrives_when_it_has_begun_and_rests(rank, witness, inquiry, activity):
    activity[0] = processes.Activity("S", 1.0)
    assert not inquiry.arrived(set())
    assert not inquiry.arrived(set()) and witness.state == "starts"
    rank.tell(responder.BEGUN)
    assert inquiry.arrived(set()) and witness.state == "works"


def test_a_rank_that_computes_arrives_after_a_while(rank, inquiry, activity):
    rank.tell(responder.BEGUN)
    assert not inquiry.arrived(set())
    activity[0] = processes.Activity("R", 1.01)
    assert not inquiry.arrived(set())
    activity[0] = processes.Activity("R", 1.06)
    assert inquiry.arrived(set())


def test_a_rank_arrives_without_a_look_at_processes(rank, inquiry, activity):
    activity[0] = None
    assert not inquiry.arrived(set())
    rank.tell(responder.BEGUN)
    assert inquiry.arrived(set())


def test_a_rank_that_has_ended_need_not_arrive(inquiry, activity):
    assert inquiry.arrived({0})


def test_a_rank_that_has_left_its_function_ends(rank, witness):
    rank.tell(responder.BEGUN)
    rank.tell(responder.LEFT)
    witness.listen()
    assert witness.state == "ends"


class SilentHost:
    """Ranks that write their stack only when they get the second signal."""

    def __init__(self, witness):
        self.witness, self.signals, self.written = witness, 0, False

    def signal(self, number, ranks):
        self.signals += bool(ranks)
        if self.signals == 2 and not self.written:
            self.written = True
            line = b'Thread 1 (most recent call first):\n  File "a.py", line 7 in f\n'
            os.pwrite(self.witness.file.fileno(), line, 0)


def test_a_rank_that_cannot_answer_yet_is_asked_again(witness):
    inquiry = Inquiry(lambda: None)
    inquiry.witnesses.append(witness)
    (found,) = inquiry.standings(set(), SilentHost(witness))
    assert (found.state, found.frames[-1].line) == ("works", 7)


def test_a_rank_that_ended_is_not_asked(witness):
    inquiry = Inquiry(lambda: pytest.fail("waited"))
    inquiry.witnesses.append(witness)
    (found,) = inquiry.standings({0}, SilentHost(witness))
    assert found.state == "returned"
