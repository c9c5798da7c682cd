"""Record what one rank does: PyTorch's profiler, and hooks for what it cannot see."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import attrgetter

import torch
from torch.autograd import _profiler_enabled
from torch.autograd.profiler import profile

from course_lib.accelerators.phases import patch, watch
from course_lib.tracing import flight_recorder, profiler
from course_lib.tracing.merge import Mark
from course_lib.tracing.profiler import Span

LIMIT = 100_000  # raw operators: 0.7 s of work at the end, about 700 training steps
SECONDS = 10.0  # of recording; the next training step after that is not recorded

_TAKEN = (
    "nothing was recorded: another profiler ran in the block, and PyTorch runs one at "
    "a time. Take it out, or launch without trace=True."
)


@contextmanager
def record(*, cuda: bool | None = None, limit: int = LIMIT) -> Iterator[Recording]:
    """Record this rank in the block; it is filled at its end, also on an exception.

    `cuda` adds the kernels of GPUs (default: if CUDA is already in use). It ends with a
    mark of kind "cut" after `limit` raw operators, or at the first forward or backward
    after 10 seconds. PyTorch runs one profiler at a time: with a second one in the
    block the recording stays empty.
    """
    # kineto prints its start and stop on stderr; 20,000 collectives can be told apart
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "20000")
    cuda = torch.cuda.is_initialized() if cuda is None else cuda
    recording = Recording(cuda=cuda, limit=limit)
    with ExitStack() as stack:
        for name in ("send", "recv", "recv_anysource"):
            place = torch.distributed.ProcessGroup, name
            patch(stack, place, partial(_message, recording.messages))
        recording.start()
        try:
            with watch(recording.phase):
                yield recording
        finally:
            recording.stop()


class Recording:
    """What one rank did: at the end `events`, plain marks for `merge`."""

    def __init__(self, *, cuda: bool, limit: int):
        self.cuda, self.limit, self.cut = cuda, limit, None
        self.events: tuple[Mark, ...] = ()
        self.messages, self.phases = [], []

    def start(self) -> None:
        """Begin to profile."""
        device = "cuda" if self.cuda else None
        self.profile = profile(use_kineto=True, use_device=device)
        self.since, self.until = time.time_ns(), None
        self.profile.__enter__()

    def halt(self) -> None:
        """End the profiler; it must run between two steps, not inside an operator."""
        if self.until is None and _profiler_enabled():
            self.profile.__exit__(None, None, None)
            self.until = time.time_ns()

    def stop(self) -> None:
        """End the profiler and turn what it saw into marks."""
        self.halt()
        if self.until is None:
            warnings.warn(_TAKEN, stacklevel=2)
            return
        result = self.profile.kineto_results
        events = result.events() if result else []
        if len(events) > self.limit:
            self.cut = events[self.limit].start_ns()
        now = self.cut or self.until
        cut = [Mark("cut", "", now / 1e9, now / 1e9)] if self.cut else []
        ops = list(profiler.read_ops(events[: self.limit], cuda=self.cuda))
        spans = self.phases + profiler.phases(op for op in ops if op.note)
        calls = flight_recorder.read(flight_recorder.entries())
        calls = [call for call in calls if self.since <= call.start <= now]
        # DDP's backward returns when its all-reduces have ended
        ddp = any(op.name == "DistributedDataParallel.forward" for op in ops)
        awaited = [span for span in spans if ddp and span.name == "backward"]
        done = profiler.segments(ops, spans)
        sent = profiler.communication(ops, calls, self.messages, awaited=awaited)
        self.events = tuple(sorted(cut + done + sent, key=attrgetter("start")))

    @contextmanager
    def phase(self, name: str, module) -> Iterator[None]:
        """Take the time of a phase, before which a long recording ends."""
        if self.until is None and time.time_ns() - self.since > SECONDS * 1e9:
            # here, since ending a profiler in the middle of an operator crashes
            self.halt()
            self.cut = self.until
        # a note in the profile would take 12 µs, as long as two small operators
        start = time.time_ns()
        yield
        self.phases.append(Span(name, start, time.time_ns()))


def _message(messages: list[Span], original: Callable, /, *args, **kwargs):
    tensors = args[1] if len(args) > 1 else ()
    start, payload = time.time_ns(), sum(tensor.nbytes for tensor in tensors)
    try:
        return original(*args, **kwargs)
    finally:
        messages.append(Span("message", start, time.time_ns(), payload))
