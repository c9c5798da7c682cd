"""Does a launch stand still? Decided from what its processes do, and where they are."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from course_lib.launching.watchdog import gathering, responder
from course_lib.launching.watchdog.responder import Answer, Pending
from course_lib.stacks import Frame, is_learners, main_stack
from course_lib.system.processes import Activity, works
from course_lib.tracing.flight_recorder import Call

EVERY = 0.5  # seconds between two looks at the processes
_PAUSE = 1.0  # seconds of rest before the ranks are asked, and again before a report
_REST, _GROUP = 0.01, 0.005  # shares of a core; gloo looks for messages in vain
_LONGEST = 60.0  # seconds: if PyTorch gives up sooner, its own error is awaited
_STOPPED = 10.0  # seconds: somebody may let a stopped rank go on

_DDP = os.path.join("torch", "nn", "parallel", "distributed.py")
_OPERATOR = os.path.join("torch", "_ops.py")
_COMMUNICATES = (
    os.path.join("torch", "distributed", ""),
    _DDP,
    os.path.join("course_lib", "launching", "rendezvous.py"),
)
_WRAPPERS = ("wrapper", "inner", "inner_func", "create")
_JOIN = "join"  # waits for a thread of its own
_JOINS = (_JOIN, "_wait_for_tstate_lock", "_shutdown")
_LOADER = os.path.join("torch", "utils", "data", "")
_QUEUES = os.path.join("multiprocessing", "queues.py")
_THREADING, _POOL = "threading.py", os.path.join("futures", "thread.py")


@dataclass(frozen=True)
class RankState:
    """Where one rank stands, and in which call if it waits.

    `state`: `starts` (its function has not begun), `waits`, `works`, `raises` (its
    function has raised, nobody knows what), `ends` (the function is over, its process
    not), `stopped` or `returned` (both are over).
    `frames` is its stack, `calls` the collectives that it has called so far, `members`
    its groups, `error` an exception that it is handling, `forked` the stacks of the
    processes that it started, `ended` the exit codes of those that are gone. `message`
    is the send or receive for which it waits, `grouped` the ranks that each of its
    calls of new_group named, `unwaited` those to which it sent by isend without a
    wait().
    """

    rank: int
    state: str
    call: str = ""
    frames: tuple[Frame, ...] = ()
    calls: tuple[Call, ...] = ()
    members: dict[str, list[int]] = field(default_factory=dict)
    error: str = ""
    forked: tuple[list[Frame], ...] = ()
    ended: tuple[int, ...] = ()
    message: Pending | None = None
    grouped: tuple[list[int], ...] = ()
    unwaited: tuple[int, ...] = ()

    @property
    def num_calls(self) -> int:
        """How many collectives it has called."""
        last = {call.group: call.number for call in self.calls}
        return sum(last.values())


def running_stacks(states: list[RankState]) -> dict[int, list[Frame]]:
    """Return the stack of each rank that still ran."""
    return {state.rank: list(state.frames) for state in states if state.frames}


class Looks:
    """Looks at the activities of ranks, each compared with the one before."""

    def __init__(self):
        self.at, self._activities = None, {}  # of the last look

    def resting(self, activities: dict, now: float) -> set[int]:
        """Take a look; the ranks that have rested since the last one."""
        passed = 0.0 if self.at is None else now - self.at
        before = self._activities
        self._activities, self.at = activities, now
        return {
            rank
            for rank, activity in activities.items()
            if activity and rests(activity, before.get(rank), passed)
        }


class Watch:
    """When to ask the ranks where they are, and when their answers mean a stall."""

    def __init__(self):
        self._looks = Looks()
        # at rest, a rank stopped, without a break
        self._since: Any = None
        self._stopped: Any = None
        self._asked, self._states = 0.0, None  # the last answers

    def look(self, activities: dict, now: float) -> bool:
        """Take in a look at all live processes; True when it is time to ask them."""
        last = self._looks.at
        resting = self._looks.resting(activities, now)
        if not any(activity.state == "T" for activity in activities.values()):
            self._stopped = None
        elif self._stopped is None:
            self._stopped = now
        if last is None:
            return False
        if resting != activities.keys():
            self._since = self._states = None
            return False
        if self._since is None:
            self._since = self._asked = last
        return bool(activities) and now - self._asked >= _PAUSE

    def told(self, ranks: list[RankState], now: float, *, patience: float) -> bool:
        """Take in where the ranks are; True if they have stood there for too long.

        PyTorch itself gives up after `patience` seconds.
        """
        again, self._states = ranks == self._states, ranks
        self._asked, self._looks = now, Looks()  # the answers cost time of their own
        states = {rank.state for rank in ranks}
        moves = states & {"starts", "works", "raises", "ends"}
        stands = not moves and states & {"waits", "stopped"}
        rested = now - self._since
        late = patience > _LONGEST or rested > patience + 2 * _PAUSE
        if "stopped" in states:
            since = now if self._stopped is None else self._stopped
            late = late and now - since > _STOPPED
        return bool(stands and again and late)


def rests(activity: Activity, before: Activity | None, passed: float) -> bool:
    """Return True for a process that is stopped, or computes next to nothing."""
    if before is None:
        return False
    share = _REST + _GROUP * activity.groups
    # less than before: a thread or a forked process has ended meanwhile
    idle = abs(activity.seconds - before.seconds) <= share * passed
    return idle and not works(activity)


def rank_state(rank: int, answer: Answer, last: bool = False) -> RankState:
    """Return where a rank stands that gave this answer.

    A thread at work may yet wake the others. For the `last` answer, before the end,
    it is enough that the main thread waits.
    """
    *others, main = answer.stacks or ([],)
    stacks = [stack for stack in others if not _idles(stack)] + [main]
    calls = [_awaited(stack, answer) for stack in stacks]
    waiting = [pair for pair in zip(calls, stacks) if pair[0] not in ("", _JOIN)]
    sure = all(calls) or (last and calls[-1])
    call, frames = waiting[-1] if waiting and sure else ("", main_stack(stacks))
    return RankState(
        rank,
        "waits" if call else "works",
        call,
        tuple(frames),
        answer.calls,
        members=answer.members,
        error=answer.error,
        message=answer.message if call else None,
        grouped=answer.grouped,
        unwaited=answer.unwaited,
    )


def feeds_queue(stack: list[Frame]) -> bool:
    """Return True for a process that is over but for what it put into a queue."""
    return _in_queue(stack, "_finalize_join")


def asks_queue(frames: Sequence[Frame]) -> bool:
    """Return True for a process that waits for something to be put into a queue."""
    return _in_queue(frames, "get")


def _in_queue(frames, function):
    return any(
        frame.function == function and frame.file.endswith(_QUEUES) for frame in frames
    )


def _idles(stack):
    """Return True for a library's thread that does nothing until it is given work."""
    if not stack or any(map(is_learners, stack)):
        return False
    end, files = stack[-1], [frame.file for frame in stack]
    foreign = any(not file.endswith(_THREADING) for file in files)  # no Timer
    return (
        (end.function == "_worker" and end.file.endswith(_POOL))
        or (end.function == "wait" and end.file.endswith(_THREADING) and foreign)
        or any(_LOADER in file or file == responder.__file__ for file in files)
    )


def _awaited(stack, answer):
    """Return the call in which a thread waits; "" if it may be at work."""
    learners = [place for place, frame in enumerate(stack) if is_learners(frame)]
    inner = stack[learners[-1] + 1 :] if learners else stack
    if not inner or any(frame.function == "limited" for frame in inner):
        return ""  # in a line of the learner's, or in a call that ends by itself
    end, pending = inner[-1], [call.name for call in answer.calls if not call.done]
    if end.function in _JOINS and end.file.endswith(_THREADING):
        pooled = any("multiprocessing" in frame.file for frame in inner)
        return "" if pooled else _JOIN
    if end.function == "_engine_run_backward" and pending:
        return f"{pending[-1]} of backward"
    frames = [f for f in inner if any(part in f.file for part in _COMMUNICATES)]
    if not frames or (end not in frames and not end.file.endswith(_OPERATOR)):
        return ""
    gathers = gathering.find(inner)
    return gathers.name if gathers else _name(frames, answer.awaited)


def _name(frames, awaited):
    """Return what the learner called, of these frames of torch.distributed."""
    names = [f for f in frames if f.function not in _WRAPPERS]
    public = [f for f in names if not f.function.startswith("_")]
    if not names:
        return ""  # on its way to the call
    frame = (public or names)[0]
    if frame.file.endswith(_DDP):
        return "DistributedDataParallel"
    if frame.function == "from_store":
        return awaited or "a store"
    if frame.function == "wait":
        return f"wait() of {awaited}" if awaited else "wait()"
    return frame.function
