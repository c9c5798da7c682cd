"""Record what one rank does: PyTorch's profiler, and hooks for what it cannot see."""

from __future__ import annotations

import os
import sys
import time
import warnings
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from typing import Any

import torch
from torch.autograd import _profiler_enabled
from torch.autograd.profiler import profile

from course_lib.accelerators.training_phases import watch_phases
from course_lib.tracing import flight_recorder, profiler
from course_lib.tracing.merge import Mark
from course_lib.tracing.messages import Log, Post
from course_lib.tracing.profiler import Span

LIMIT = 100_000  # raw operators: 0.7 s of work at the end, about 700 training steps
SECONDS = 10.0  # of recording; the next training step after that is not recorded
_PATIENCE = 1.0  # seconds for calls that nobody waits for
# times that a recording without a useful step begins anew, as after compiling
_ANEW = 2

_HOOKS = "Using `torch.compile.module.` when there are global hooks"
_TAKEN = (
    "nothing was recorded: another profiler ran in the block, and PyTorch runs one at "
    "a time. Take it out, or launch without trace=True."
)


@contextmanager
def record(
    log: Log | None = None,
    *,
    cuda: bool | None = None,
    limit: int = LIMIT,
    steps: list[int] | None = None,
) -> Iterator[Recording]:
    """Record this rank in the block; it is filled at its end, also on an exception.

    `log` notes its messages already; without it a new one does. `cuda` adds the kernels
    of GPUs (default: if CUDA is already in use). A training step begins with the first
    forward after a backward. Only `steps` are recorded if they are given, else all,
    until there are `limit` raw operators, or until the first forward or backward after
    10 seconds. Before that a recording without two training
    steps begins anew, with a step: as when setting up takes long. Marks of kinds
    "begin" and "cut" say so.

    PyTorch runs one profiler at a time: with a second one in the block the recording
    stays empty.
    """
    # kineto prints its start and stop on stderr; 20,000 collectives can be told apart
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "20000")
    # our hooks do nothing in what is compiled
    warnings.filterwarnings("ignore", _HOOKS)
    cuda = torch.cuda.is_initialized() if cuda is None else cuda
    with ExitStack() as stack:
        log = log or stack.enter_context(Log().kept())
        recording = Recording(log, cuda=cuda, limit=limit, steps=steps)
        if steps is None:
            recording.start()
        try:
            with watch_phases(recording.phase):
                yield recording
        finally:
            recording.stop()


class Recording:
    """What one rank did: at the end `events`, plain marks for `merge`."""

    def __init__(self, log: Log, *, cuda: bool, limit: int, steps: list[int] | None):
        self.log = log
        self.cuda, self.limit, self.wanted = cuda, limit, steps
        self.events: tuple[Mark, ...] = ()
        self.phases, self.steps = [], []
        # None before it began or ended; then the time in nanoseconds
        self.since: Any = None
        self.until: Any = None
        # name and time of these marks
        self.begin: tuple[str, int] | None = None
        self.cut: tuple[str, int] | None = None
        self.anew = 0

    def start(self) -> None:
        """Begin to profile; only waits from here on count."""
        self.log.waits.clear()  # there is room for so many
        device = "cuda" if self.cuda else None
        self.profile = profile(use_kineto=True, use_device=device)
        self.since = time.time_ns()
        self.profile.__enter__()

    def halt(self) -> None:
        """End the profiler; it must run between two steps, not inside an operator."""
        if self.since and self.until is None and _profiler_enabled():
            if sys.exc_info()[0] is None:  # else its calls may never end
                _settle()
            self.profile.__exit__(None, None, None)
            self.until = time.time_ns()

    def stop(self) -> None:
        """End the profiler and turn what it saw into marks."""
        self.halt()
        if self.until is None:
            warnings.warn(_TAKEN if self.since else self._never(), stacklevel=2)
            return
        result = self.profile.kineto_results
        events = self._fitting(result.events() if result else [])
        ops = list(profiler.read_ops(events, cuda=self.cuda))
        spans = self.phases + profiler.noted_phases(op for op in ops if op.note)
        now = self.cut[1] if self.cut else self.until
        calls = flight_recorder.read_calls(flight_recorder.entries())
        calls = [call for call in calls if self.since <= call.start <= now]
        # DDP's backward returns when its all-reduces have ended
        ddp = any(op.name == "DistributedDataParallel.forward" for op in ops)
        awaited = [span for span in spans if ddp and span.name == "backward"]
        done = profiler.segments(ops, spans, self.log.waits)
        messages = [_span(post) for post in self.log.posts]
        sent = profiler.communication(ops, calls, messages, awaited=awaited)
        self.events = tuple(sorted(self._ends() + done + sent, key=attrgetter("start")))

    def _never(self):
        """The warning of a training step that was asked for."""
        asked, count = self.wanted and self.wanted[0], len(self.steps)
        return f"training step {asked} never came, the last of {count} is {count - 1}"

    def _fitting(self, events: list) -> list:
        """As many as the limit allows; those before training are left out first."""
        if len(events) <= self.limit:
            return events
        steps = [time for time in self.steps if time > self.since]
        places = [bisect_left(events, time, key=_start) for time in steps]
        places = [0, *places, len(events)]
        # two steps, or what is before the first one and that
        fits = (a for a, b in zip(places, places[2:]) if b - a <= self.limit)
        first = next(fits, places[1] if steps else 0)
        if first:
            self.since = steps[places.index(first) - 1]
            self._begin(self.steps.index(self.since))
        if first + self.limit < len(events):
            self.cut = f"{self.limit:,} operators", _start(events[first + self.limit])
        return events[first : first + self.limit]

    def _ends(self) -> list[Mark]:
        """Where the recording begins and is cut, if that is not with the function."""
        return [
            Mark(kind, end[0], end[1] / 1e9, end[1] / 1e9)
            for kind, end in (("begin", self.begin), ("cut", self.cut))
            if end
        ]

    @contextmanager
    def phase(self, name: str, module) -> Iterator[None]:
        """Take the time of a phase, before which a recording may begin or end."""
        # here, since ending a profiler in the middle of an operator crashes
        last = self.phases[-1].name if self.phases else "backward"
        if name == "forward" and last == "backward":
            self._step()
        if self.since and not self.wanted and self.until is None:
            self._hurry(name)
        # a note in the profile would take 12 µs, as long as two small operators
        start = time.time_ns()
        yield
        self.phases.append(Span(name, start, time.time_ns()))

    def _step(self):
        number = len(self.steps)
        if self.wanted and number == self.wanted[0]:
            self.start()
            self._begin(number)
        elif self.wanted and number == self.wanted[-1] + 1:
            self.halt()
        self.steps.append(time.time_ns())

    def _hurry(self, name):
        """After its seconds a recording ends, or begins anew if it is of no use yet."""
        if time.time_ns() - self.since <= SECONDS * 1e9:
            return
        trained = [
            p for p in self.phases if p.start > self.since and p.name != "forward"
        ]
        if len(trained) > 1 or self.anew == _ANEW:
            self.halt()
            self.cut = f"{SECONDS:g} s", self.until
        elif name == "forward":
            self.profile.__exit__(None, None, None)
            self.start()
            self._begin(len(self.steps) - 1)
            self.anew += 1

    def _begin(self, step):
        self.begin = f"training step {step}", self.since


def _settle():
    """Wait until gloo's threads have noted the ends of calls that somebody waited for.

    They do so after they have told who waits, and torch 2.11 forgets a call without.
    """
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        calls = flight_recorder.read_calls(flight_recorder.entries())
        if all(call.done for call in calls if call.backend == "gloo"):
            return
        time.sleep(0)  # lets them have the core


def _start(event) -> int:
    return event.start_ns()


def _span(post: Post) -> Span:
    """Name a message alike on both ends; "" if its sender is not known."""
    ends = f"{post.group}: {post.source} to {post.target}, {post.tag}"
    route = "" if post.source is None else ends
    return Span(route, post.start, post.stop, post.bytes)
