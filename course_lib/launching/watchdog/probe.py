"""Ask the ranks of a launch where they are, and what they have called."""

import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import replace

from course_lib import stacks
from course_lib.launching.own_time import OwnTime
from course_lib.launching.watchdog import responder
from course_lib.launching.watchdog.responder import Answer
from course_lib.launching.watchdog.stall import (
    EVERY,
    Looks,
    RankState,
    Watch,
    feeds_queue,
    rank_state,
)
from course_lib.stacks import Frame, is_learners
from course_lib.system import processes

_FATAL = "Fatal Python error: "  # of faulthandler
_PATIENCE = 0.5  # seconds that a rank has to answer
_AGAIN = 0.15  # seconds until a rank that did not is asked again
_COMPUTED = 0.05  # seconds of computing after which a rank is asked as it runs
_APART = 0.3  # seconds between two answers of ranks that may move meanwhile
_STARVED = 0.5  # share of that time without a core after which nothing can be told


class RankProbe:
    """What one rank can be asked by: a socket for answers, a file for its stacks."""

    def __init__(self, file):
        self.file = file
        self.socket, self._theirs = socket.socketpair()
        self.socket.setblocking(False)
        self._heard = b""
        self._words = set()
        self.answer = Answer()
        self.waits = False  # for an answer
        self.gone = False  # the rank has ended, or closed its end
        self.children = []  # stacks of the processes that the rank forked
        self.ended = []  # and the exit codes of those for which it has not waited

    def files(self) -> list[int]:
        """Return what its rank writes on: the file for stacks, an end of the socket."""
        return [self.file.fileno(), self._theirs.fileno()]

    def given(self) -> None:
        """Close the rank's end: the rank has its own copy."""
        self._theirs.close()

    def ask(self) -> None:
        """Forget the last stacks; ask a rank that can answer."""
        self.listen()
        self.answer = self.answer._replace(stacks=())
        self.waits = b"" in self._words and not self.gone
        if self.waits:
            with suppress(OSError):
                self.socket.send(b"?")

    def listen(self) -> None:
        """Take in what the rank told; an empty line is the greeting of its answers."""
        with suppress(OSError):
            with suppress(ConnectionError):  # it has ended before it read a question
                while data := self.socket.recv(1 << 16):
                    self._heard += data
            self.gone, self.waits = True, False
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            if line in (b"", *responder.WORDS):
                self._words.add(line)
                continue
            with suppress(ValueError):  # two threads of the rank spoke at once
                self.answer, self.waits = responder.understand(line), False

    @property
    def state(self) -> str:
        """`starts`, `works` or `ends`: before, in or after the function of the rank.

        `raises` until it has written by which exception it left the function.
        """
        if self.failed or responder.LEFT in self._words:
            return "ends"
        if responder.RAISED in self._words:
            return "raises"
        return "works" if responder.BEGUN in self._words else "starts"

    @property
    def failed(self) -> bool:
        """True once the rank has written how it failed."""
        return responder.FAILED in self._words

    @property
    def speaks(self) -> bool:
        """True while it will say more: an answer, or how it failed."""
        return self.waits or (self.state == "raises" and not self.gone)

    def crashed(self) -> list[list[Frame]]:
        """Return the stacks of a rank that compiled code has ended; none of others."""
        if responder.CRASHED in self._words:
            return list(self.answer.stacks)
        _, fatal, dump = self.dumped().rpartition(_FATAL)
        return stacks.parse_dump(dump) if fatal else []

    def dumped(self, start: int = 0) -> str:
        """Return what `faulthandler` wrote from this byte on."""
        size = os.fstat(self.file.fileno()).st_size
        return os.pread(self.file.fileno(), size, start).decode(errors="replace")

    def close(self) -> None:
        """Close all files."""
        for end in (self.file, self.socket, self._theirs):
            end.close()


class Watchdog:
    """What can be learnt of the ranks of a launch while they run.

    `wait()` is called while they think: it must not take long.
    """

    def __init__(self, wait):
        self._wait = wait
        self._watch = Watch()
        self._looked = 0.0
        self._looks = Looks()  # since a rank has failed
        self._computed = {}  # seconds of each until it was seen in its function
        self._before = {}  # the state of each before it was last asked
        self.probes: list[RankProbe] = []
        self.pids: dict[int, int] = {}

    def arrived(self, ended: set[int]) -> bool:
        """Return True once each rank is worth asking: at rest, or well under way.

        One that has just been forked has no line of the learner's yet.
        """
        activities = self._activities(ended)
        resting = self._looks.resting(activities, time.monotonic())
        for rank, probe in enumerate(self.probes):
            probe.listen()
            activity = activities.get(rank)
            if rank in ended or (probe.state != "starts" and not activity):
                continue  # nothing can be seen of it, as elsewhere than on Linux
            if probe.state in ("starts", "raises"):
                return False
            seconds = activity.seconds
            computed = seconds - self._computed.setdefault(rank, seconds)
            if computed < _COMPUTED and rank not in resting:
                return False
        return True

    def stall(self, ended: set[int]) -> list[RankState] | None:
        """Return where all ranks stand if they were at rest for too long, else None.

        Looks now and then; called more often it does nothing.
        """
        now = time.monotonic()
        if now - self._looked < EVERY or len(self.pids) < len(self.probes):
            return None
        self._looked = now
        activities = self._activities(ended, families=True)
        if not all(activities.values()) or not self._watch.look(activities, now):
            return None
        states = self.states(ended)
        if self._has_strangers():
            return None
        patience = min(probe.answer.patience for probe in self.probes)
        late = self._watch.told(states, time.monotonic(), patience=patience)
        return states if late else None

    def _has_strangers(self):
        """Return True if a group has members that are no ranks of this launch."""
        ranks = range(len(self.probes))
        groups = (probe.answer.members.values() for probe in self.probes)
        return any(max(group) not in ranks for each in groups for group in each)

    def last_states(self, ended: set[int], host) -> tuple[list[RankState], bool | None]:
        """Return where each rank stands, and whether they moved meanwhile.

        None if that cannot be told, since one of them had no core, or fell silent.
        After this the ranks must be stopped.
        """
        self.states(ended)  # a look that does no harm
        places, own, began = self._places(), OwnTime(), time.monotonic()
        own.count(self.pids.values(), 0.0)
        while (passed := time.monotonic() - began) < _APART:
            self._wait()
        starved = own.count(self.pids.values(), passed) < (1 - _STARVED) * passed
        states, now = self.states(ended, host), self._places()
        if any(now[rank] != place for rank, place in places.items() if rank in now):
            return states, True
        return states, None if starved or places.keys() - now else False

    def _places(self):
        """Return line and calls of each rank that has answered by itself."""
        return {
            rank: (probe.answer.stacks[-1], probe.answer.calls)
            for rank, probe in enumerate(self.probes)
            if probe.answer.stacks and not probe.waits
        }

    def states(self, ended: set[int], host=None) -> list[RankState]:
        """Return where each rank stands; by its `host` one that cannot say it, too.

        After that the ranks must be stopped: such a look can crash a healthy one.
        """
        activities = self._activities(ended).items()
        stopped = {rank for rank, does in activities if does and does.state == "T"}
        running = {
            rank: probe
            for rank, probe in enumerate(self.probes)
            if rank not in ended | stopped
        }
        for rank, probe in running.items():
            probe.listen()
            self._before[rank] = probe.state
        self._ask(running.values())
        if host:
            self._dump(running, host)
            self._dump_children(running)
        return [
            self._ended(rank)
            if rank in ended
            else self._state(rank, stopped=rank in stopped, last=bool(host))
            for rank in range(len(self.probes))
        ]

    def _activities(self, ended, *, families=False):
        """Return what the ranks that have not ended do; None where that cannot be seen.

        With `families` what they forked counts as theirs, unless a rank is at work
        itself: then nobody need look through all processes of the machine.
        """
        pids = {rank: pid for rank, pid in self.pids.items() if rank not in ended}
        activities = list(map(processes.activity, pids.values()))
        if families and not any(map(processes.works, activities)):
            forked = processes.families(pids.values())
            activities = list(map(processes.together, activities, forked))
        return dict(zip(pids, activities))

    def _ask(self, probes):
        """Let ranks that can answer say where they are; each `answer` has it then."""
        for probe in probes:
            probe.ask()
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until and any(probe.speaks for probe in probes):
            self._wait()
            for probe in probes:
                probe.listen()

    def _dump(self, probes, host):
        """Take the stacks of ranks that did not answer."""
        silent = {
            rank: probe
            for rank, probe in probes.items()
            if not probe.answer.stacks and not probe.gone
        }
        began = time.monotonic()
        times, texts = 0, {}
        while silent and (passed := time.monotonic() - began) < _PATIENCE:
            if passed >= times * _AGAIN:  # because a rank that starts ignores it
                host.signal(signal.SIGUSR1, [r for r in silent if not texts.get(r)])
                times += 1
            self._wait()
            for probe in silent.values():
                probe.listen()
            last, texts = texts, {r: probe.dumped() for r, probe in silent.items()}
            told = (text or silent[rank].gone for rank, text in texts.items())
            if texts == last and all(told):
                break  # a dump is complete when it no longer grows
        for rank, text in texts.items():
            if silent[rank].answer.stacks:
                continue  # it has answered meanwhile
            dumped = tuple(stacks.parse_dump(text))
            silent[rank].answer = silent[rank].answer._replace(stacks=dumped)

    def _dump_children(self, probes):
        """Take the stacks of processes that ranks forked, one after the other."""
        until = time.monotonic() + _PATIENCE
        for rank, probe in probes.items():
            for pid in processes.children(self.pids.get(rank, -1)):
                if (code := processes.exit_code(pid)) is not None:
                    probe.ended.append(code)
                # a program of its own has no handler: the signal would end it
                if processes.catches(pid, signal.SIGUSR1):
                    probe.children.append(self._dump_child(pid, probe, until))

    def _dump_child(self, pid, probe, until):
        start, last, text = len(probe.dumped()), "", ""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
        while time.monotonic() < until and not (text and text == last):
            self._wait()
            last, text = text, probe.dumped(start)
        return stacks.of_child(stacks.parse_dump(text))

    def farewells(self) -> list[RankState]:
        """Return what ranks told when they ended, all of which have."""
        return [self._ended(rank) for rank in range(len(self.probes))]

    def _ended(self, rank):
        probe = self.probes[rank]
        probe.listen()
        told = probe.answer
        if not (crashed := probe.crashed()):  # else it has no line any more
            told = told._replace(stacks=(), awaited="", error="", message=None)
        state = rank_state(rank, told._replace(stacks=tuple(crashed)), last=True)
        return replace(state, state="returned")

    def _state(self, rank, *, stopped, last):
        if stopped:
            return RankState(rank, "stopped")
        probe = self.probes[rank]
        state = rank_state(rank, probe.answer, last=last)
        forked = (
            stack
            for stack in probe.children
            if any(map(is_learners, stack)) or feeds_queue(stack)
        )
        # before and after the function there is no line of the learner's to tell; what
        # it has told since it was asked is younger than its stack
        if state.state == "works" and not any(map(is_learners, state.frames)):
            early = self._before.get(rank) == "starts"
            state = replace(state, state="starts" if early else probe.state)
        return replace(state, forked=tuple(forked), ended=tuple(probe.ended))

    def close(self) -> None:
        """Close all files."""
        for probe in self.probes:
            probe.close()
