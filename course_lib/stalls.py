"""Does a launch stand still? Decided from what its processes do, and where they are."""

import linecache
import os
from dataclasses import dataclass

from course_lib.answers import Answer
from course_lib.calls import Call
from course_lib.errors import Frame, is_learners
from course_lib.stacks import main_stack

EVERY = 0.5  # seconds between two looks at the processes
_PAUSE = 1.0  # seconds of rest before the ranks are asked, and again before a report
_REST = 0.01  # share of a core: gloo's threads look for messages in vain
_LONGEST = 60.0  # seconds: if PyTorch gives up sooner, its own error is awaited

_COMMUNICATES = (
    os.path.join("torch", "distributed", ""),
    os.path.join("torch", "nn", "parallel", "distributed.py"),
    os.path.join("course_lib", "rendezvous.py"),
)
_WRAPPERS = ("wrapper", "inner", "create")


@dataclass(frozen=True)
class Standing:
    """Where one rank stands: `waits`, `works`, `stopped` or `returned`; in which call.

    `frames` is its stack, `calls` the collectives that it has called so far, `forked`
    the stacks of the processes that it started, `ended` the exit codes of those that
    are gone.
    """

    rank: int
    state: str
    call: str = ""
    frames: tuple[Frame, ...] = ()
    calls: tuple[Call, ...] = ()
    forked: tuple[tuple[Frame, ...], ...] = ()
    ended: tuple[int, ...] = ()

    @property
    def made(self) -> int:
        """How many collectives it has called."""
        last = {call.group: call.number for call in self.calls}
        return sum(last.values())


class Watch:
    """When to ask the ranks where they are, and when their answers mean a stall."""

    def __init__(self):
        self._seen, self._at = {}, 0.0  # the last look
        self._since = None  # at rest without a break
        self._asked, self._told = 0.0, None  # the last answers

    def look(self, seen: dict, now: float) -> bool:
        """Take in a look at all live processes; True when it is time to ask them."""
        before, passed = self._seen, now - self._at
        self._seen, self._at = seen, now
        if not before:
            return False  # the answers cost time of their own: a new start
        if not all(_rests(seen[rank], before.get(rank), passed) for rank in seen):
            self._since = self._told = None
            return False
        if self._since is None:
            self._since = self._asked = now - passed
        return bool(seen) and now - self._asked >= _PAUSE

    def told(self, standings: list[Standing], now: float, *, patience: float) -> bool:
        """Take in where the ranks are; True if they have stood there for too long.

        PyTorch itself gives up after `patience` seconds.
        """
        again, self._told = standings == self._told, standings
        self._asked, self._seen = now, {}
        states = {standing.state for standing in standings}
        stands = "works" not in states and states & {"waits", "stopped"}
        late = patience > _LONGEST or now - self._since > patience + 2 * _PAUSE
        return bool(stands and again and late)


def _rests(activity, before, passed):
    """True for a process that is stopped, or whose threads compute next to nothing."""
    if before is None:
        return False
    idle = activity.seconds - before.seconds <= _REST * passed
    return idle and activity.state not in ("R", "D")


def standing(rank: int, answer: Answer, children=()) -> Standing:
    """Where a rank stands that gave this answer, and the processes that it forked."""
    forked = tuple(tuple(stack) for stack in children if any(map(is_learners, stack)))
    stacks = answer.stacks
    own = [stack for stack in stacks if any(map(is_learners, stack))]
    found = [_awaited(stack, answer.calls) for stack in own]
    waits = [(call, stack) for call, stack in zip(found, own) if call != "join"]
    if not waits or not all(found):
        frames = tuple(main_stack(stacks))
        return Standing(rank, "works", "", frames, answer.calls, forked)
    call, stack = waits[-1]
    return Standing(rank, "waits", call, tuple(stack), answer.calls, forked)


def _awaited(stack, calls):
    """The call in which a thread waits; "" if it may be at work."""
    last = max(place for place, frame in enumerate(stack) if is_learners(frame))
    inner, end = stack[last + 1 :], stack[-1]
    if "timeout" in linecache.getline(stack[last].file, stack[last].line):
        return ""  # it ends by itself
    if end.function in ("join", "_wait_for_tstate_lock"):
        return "join"
    pending = [call.name for call in calls if not call.done]
    if end.function == "_engine_run_backward" and pending:
        return f"{pending[-1]} of backward"
    if not any(part in end.file for part in _COMMUNICATES):
        return ""
    names = (f.function for f in inner if any(part in f.file for part in _COMMUNICATES))
    name = next((name for name in names if name not in _WRAPPERS), end.function)
    if name == "wait":
        return f"wait() of {pending[-1]}" if pending else "wait()"
    return "DistributedDataParallel" if name == "__init__" else name
