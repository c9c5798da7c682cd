"""A rank answers where it is through a thread of its own, or by faulthandler."""

import math
import os
import tempfile
import threading

import pytest

from course_lib.launching.watchdog import responder
from course_lib.launching.watchdog.probe import RankProbe, Watchdog
from course_lib.launching.watchdog.responder import Answer
from course_lib.stacks import Frame
from course_lib.system import processes
from course_lib.tracing.flight_recorder import Call
from tests.leftovers import becomes


@pytest.fixture
def probe():
    with tempfile.TemporaryFile("w+b") as file:
        made = RankProbe(file)
        yield made
        made.close()


@pytest.fixture
def rank(monkeypatch, probe):
    """This process, as the rank that the probe is asked about."""
    monkeypatch.setattr(responder, "_socket", os.dup(probe.files()[1]))
    monkeypatch.setattr(responder, "_started", False)
    monkeypatch.setattr(responder, "_limit", math.inf)
    monkeypatch.setattr(responder, "_rank", os.getpid())
    monkeypatch.delenv("TORCH_FR_BUFFER_SIZE", raising=False)
    yield responder
    probe.close()
    os.close(responder._socket)
    assert becomes(lambda: "course_lib" not in [t.name for t in threading.enumerate()])


def answered(probe):
    probe.listen()
    return not probe.waits


def test_a_rank_without_a_process_group_is_not_waited_for(probe):
    probe.ask()
    assert not probe.waits


def test_a_rank_tells_the_stacks_of_its_threads_the_main_one_last(rank, probe):
    rank.start(1800.0)
    assert becomes(lambda: probe.ask() or probe.waits)
    assert becomes(lambda: answered(probe))
    assert probe.answer.patience == 1800.0
    functions = [frame.function for frame in probe.answer.stacks[-1]]
    assert "test_a_rank_tells_the_stacks_of_its_threads_the_main_one_last" in functions
    assert not any(f.function == "_answer" for s in probe.answer.stacks for f in s)


def test_the_patience_of_its_last_group_counts(rank, probe):
    rank.start(5.0)
    rank.start(1800.0)
    assert becomes(lambda: probe.ask() or probe.waits)
    assert becomes(lambda: answered(probe))
    assert probe.answer.patience == 1800.0


def test_a_process_that_the_rank_forked_does_not_speak_for_it(rank, monkeypatch):
    monkeypatch.setattr(rank, "_rank", os.getppid())
    rank.start(1800.0)
    assert "course_lib" not in [thread.name for thread in threading.enumerate()]


def test_an_exception_that_the_main_thread_handles_is_told(rank, probe):
    rank.start(1800.0)
    try:
        raise ValueError("no data")
    except ValueError:
        assert becomes(lambda: probe.ask() or probe.waits)
        assert becomes(lambda: answered(probe))
    assert probe.answer.error == "ValueError: no data"


def test_a_rank_that_ends_tells_its_last_calls_unasked(rank, probe, monkeypatch):
    call = Call("0", 3, "barrier", "", True)
    monkeypatch.setattr(rank.flight_recorder, "read_calls", lambda entries: [call])
    rank.start(1800.0)
    rank.farewell()
    assert becomes(lambda: probe.listen() or probe.answer.calls == (call,))


def test_a_rank_whose_socket_is_gone_ends_all_the_same(rank, probe):
    rank.start(1800.0)
    probe.close()
    rank.farewell()


def test_a_rank_that_ends_while_it_is_asked_is_not_waited_for(probe):
    probe._theirs.sendall(b"\n")
    probe.ask()
    assert probe.waits
    probe.given()  # its own end was the last one
    probe.listen()
    assert probe.gone and not probe.waits
    probe.ask()
    assert not probe.waits


def test_a_garbled_answer_is_none(probe):
    probe._theirs.sendall(b"\n[[1, 2\n")
    probe.listen()
    assert probe.answer == Answer()


@pytest.fixture
def activity(monkeypatch):
    """What /proc tells of the one rank."""
    seen = [processes.Activity("R", 1.0)]
    monkeypatch.setattr(processes, "activity", lambda pid: seen[0])
    return seen


@pytest.fixture
def watchdog(probe):
    made = Watchdog(lambda: None)
    made.probes.append(probe)
    made.pids[0] = 1
    return made


def test_a_rank_arrives_when_it_has_begun_and_rests(rank, probe, watchdog, activity):
    activity[0] = processes.Activity("S", 1.0)
    assert not watchdog.arrived(set())
    assert not watchdog.arrived(set()) and probe.state == "starts"
    rank.tell(responder.BEGUN)
    assert watchdog.arrived(set()) and probe.state == "works"


def test_a_rank_that_computes_arrives_after_a_while(rank, watchdog, activity):
    rank.tell(responder.BEGUN)
    assert not watchdog.arrived(set())
    activity[0] = processes.Activity("R", 1.01)
    assert not watchdog.arrived(set())
    activity[0] = processes.Activity("R", 1.06)
    assert watchdog.arrived(set())


def test_a_rank_arrives_without_a_look_at_processes(rank, watchdog, activity):
    activity[0] = None
    assert not watchdog.arrived(set())
    rank.tell(responder.BEGUN)
    assert watchdog.arrived(set())


def test_a_rank_that_has_ended_need_not_arrive(watchdog, activity):
    assert watchdog.arrived({0})


def test_a_rank_whose_forked_process_computes_is_not_asked(monkeypatch, watchdog):
    rank, forked = watchdog.pids[0], 7
    seconds, clock, asked = {rank: 1.0, forked: 1.0}, [0.0], []
    monkeypatch.setattr(
        processes, "activity", lambda pid: processes.Activity("S", seconds[pid])
    )
    monkeypatch.setattr(processes, "families", lambda pids: [{forked}])
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(watchdog, "states", lambda ended: asked.append(clock[0]) or [])
    for _ in range(10):
        clock[0] += 1.0
        seconds[forked] += 0.5
        watchdog.stall(set())
    assert asked == []
    for _ in range(3):
        clock[0] += 1.0
        watchdog.stall(set())
    assert asked


def test_a_rank_that_has_left_its_function_ends(rank, probe):
    rank.tell(responder.BEGUN)
    rank.tell(responder.LEFT)
    probe.listen()
    assert probe.state == "ends"


def test_a_rank_that_raises_arrives_when_it_has_written_how(
    rank, probe, watchdog, activity
):
    activity[0] = processes.Activity("S", 1.0)
    rank.tell(responder.BEGUN)
    rank.tell(responder.RAISED)
    assert not watchdog.arrived(set())
    assert not watchdog.arrived(set()) and probe.state == "raises"
    rank.tell(responder.FAILED)
    assert watchdog.arrived(set()) and probe.state == "ends"


def test_a_rank_that_raises_is_waited_for_when_it_is_asked(rank, probe):
    rank.tell(responder.RAISED)
    watchdog = Watchdog(lambda: rank.tell(responder.FAILED))
    watchdog.probes.append(probe)
    watchdog.states(set())
    assert probe.failed


class SilentHost:
    """Ranks that write their stack only when they get the second signal."""

    def __init__(self, probe):
        self.probe, self.signals, self.written = probe, 0, False

    def signal(self, number, ranks):
        self.signals += bool(ranks)
        if self.signals == 2 and not self.written:
            self.written = True
            line = b'Thread 1 (most recent call first):\n  File "a.py", line 7 in f\n'
            os.pwrite(self.probe.file.fileno(), line, 0)


def test_a_rank_that_cannot_answer_yet_is_asked_again(probe):
    watchdog = Watchdog(lambda: None)
    watchdog.probes.append(probe)
    (found,) = watchdog.states(set(), SilentHost(probe))
    assert (found.state, found.frames[-1].line) == ("works", 7)


class StartingHost:
    """A rank whose function begins when its stack is written."""

    def __init__(self, rank, probe):
        self.rank, self.probe = rank, probe

    def signal(self, number, ranks):
        top = b"Thread 1 (most recent call first):\n"
        top += b'  File "<frozen os>", line 7 in f\n'
        os.pwrite(self.probe.file.fileno(), top, 0)
        self.rank.tell(responder.BEGUN)


def test_a_stack_from_before_the_function_is_that_of_a_rank_that_starts(rank, probe):
    watchdog = Watchdog(lambda: None)
    watchdog.probes.append(probe)
    (found,) = watchdog.states(set(), StartingHost(rank, probe))
    assert probe.state == "works"
    assert found.state == "starts"


def place(line, calls=()):
    return Answer(stacks=([Frame("t.py", line, "train")],), calls=calls)


CALL = Call("0", 1, "barrier", "", False)


@pytest.mark.parametrize(
    ("then", "lost", "moved"),
    [
        (place(5), 0.0, False),
        (place(6), 0.0, True),
        (place(5, (CALL,)), 0.0, True),
        (place(5), 9.0, None),  # it could not go on
        (place(6), 9.0, True),
        (None, 0.0, None),  # it did not answer again
    ],
)
def test_two_looks_tell_whether_ranks_move(monkeypatch, probe, then, lost, moved):
    answers = iter([place(5), then])
    seconds = iter([0.0, lost])
    monkeypatch.setattr(processes, "starved", lambda pid: next(seconds))

    def ask():
        answer = next(answers)
        probe.answer, probe.waits = answer or Answer(), answer is None

    monkeypatch.setattr(probe, "ask", ask)
    watchdog = Watchdog(lambda: None)
    watchdog.probes.append(probe)
    watchdog.pids[0] = os.getpid()
    host = SilentHost(probe)
    assert watchdog.last_states(set(), host)[1] is moved


def test_a_rank_that_ended_is_not_asked(probe):
    watchdog = Watchdog(lambda: pytest.fail("waited"))
    watchdog.probes.append(probe)
    (found,) = watchdog.states({0}, SilentHost(probe))
    assert found.state == "returned"
