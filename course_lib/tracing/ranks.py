"""Record what one rank does: PyTorch's profiler, and hooks for what it cannot see."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps

import torch
from torch.autograd import DeviceType, _profiler_enabled
from torch.autograd.profiler import profile
from torch.nn.modules import module as modules

from course_lib.tracing import flight_recorder
from course_lib.tracing.events import Mark
from course_lib.tracing.profiler import (
    CALLS,
    RUNS,
    Op,
    Span,
    communication,
    segments,
)

LIMIT = 100_000  # raw operators: 0.7 s of work at the end, about 700 training steps
SECONDS = 10.0  # of recording; the next training step after that is not recorded

_TAKEN = (
    "nothing was recorded: another profiler ran in the block, and PyTorch runs one at "
    "a time. Take it out, or launch without trace=True."
)


class Tape:
    """What one rank did: `events`, plain marks for `timeline.merge`."""

    def __init__(self):
        self.events: tuple[Mark, ...] = ()

    def __repr__(self) -> str:
        return f"<Tape of {len(self.events)} marks>"


@contextmanager
def record(*, cuda: bool | None = None, limit: int = LIMIT) -> Iterator[Tape]:
    """Record this rank in the block and fill the tape at its end, also on an exception.

    `cuda` adds the kernels of GPUs (default: if CUDA is already in use). The tape ends
    with a mark of kind "cut" after `limit` raw operators, or at the first forward or
    backward after 10 seconds. PyTorch runs one profiler at a time: with a second one in
    the block the tape stays empty.
    """
    # kineto prints its start and stop on stderr; 20,000 collectives can be told apart
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "20000")
    tape = Tape()
    cuda = torch.cuda.is_initialized() if cuda is None else cuda
    session = _Session(cuda=cuda, limit=limit)
    with ExitStack() as stack:
        _hook(session, stack)
        session.start()
        try:
            yield tape
        finally:
            session.stop()
            tape.events = tuple(sorted(session.marks, key=lambda mark: mark.start))


class _Session:
    """The running profiler and what the hooks saw meanwhile."""

    def __init__(self, *, cuda: bool, limit: int):
        self.cuda, self.limit, self.cut = cuda, limit, None
        self.thread = threading.get_ident()
        self.marks, self.regions, self.messages, self.open = [], [], [], []

    def start(self) -> None:
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
        if self.cut:
            self.marks.append(Mark("cut", "", now / 1e9, now / 1e9))
        ops = list(_read_ops(events[: self.limit], cuda=self.cuda))
        steps = [op for op in ops if op.note and op.name.startswith("Optimizer.step")]
        regions = [Span("optimizer", op.start, op.stop) for op in steps]
        regions += self.regions + [Span(*region, now) for region in self.open[:1]]
        calls = flight_recorder.read(flight_recorder.entries())
        calls = [call for call in calls if self.since <= call.start <= now]
        # DDP's backward returns when its all-reduces have ended
        ddp = any(op.name == "DistributedDataParallel.forward" for op in ops)
        awaited = [span for span in regions if ddp and span.name == "backward"]
        self.marks += segments(ops, regions)
        self.marks += communication(ops, calls, self.messages, awaited=awaited)

    def enter(self, name: str, module=None) -> None:
        if threading.get_ident() != self.thread:
            return
        now = time.time_ns()
        if not self.open and self.until is None and now - self.since > SECONDS * 1e9:
            # here, since ending a profiler in the middle of an operator crashes
            self.halt()
            self.cut = self.until
        self.open.append((name, now))

    def leave(self) -> None:
        if threading.get_ident() == self.thread and self.open:
            name, start = self.open.pop()
            if not self.open:
                self.regions.append(Span(name, start, time.time_ns()))


def watch_regions(session, stack: ExitStack) -> None:
    """Let `session.enter(name, module)` and `leave()` know of forward and backward.

    Until the stack closes; names are "forward" and "backward".
    """

    def before(module, args):
        session.enter("forward", module)

    def after(module, args, output):
        session.leave()

    handle = modules.register_module_forward_pre_hook(before)
    stack.callback(handle.remove)
    handle = modules.register_module_forward_hook(after, always_call=True)
    stack.callback(handle.remove)
    for name in ("backward", "grad"):
        _patch(stack, (torch.autograd, name), partial(_backward, session))


def _hook(session: _Session, stack: ExitStack) -> None:
    """Let forward, backward and messages tell the session, until the stack closes."""
    watch_regions(session, stack)
    if torch.distributed.is_available():
        for name in ("send", "recv", "recv_anysource"):
            owner = torch.distributed.ProcessGroup
            _patch(stack, (owner, name), partial(_message, session))


def _patch(stack: ExitStack, place: tuple, around: Callable) -> None:
    owner, name = place
    original = getattr(owner, name)
    # the entry itself, since pybind's methods look different through the class
    stack.callback(setattr, owner, name, vars(owner)[name])

    @wraps(original)
    def patched(*args, **kwargs):
        return around(original, *args, **kwargs)

    setattr(owner, name, patched)


def _backward(session: _Session, original: Callable, /, *args, **kwargs):
    session.enter("backward")
    try:
        return original(*args, **kwargs)
    finally:
        session.leave()


def _message(session: _Session, original: Callable, /, *args, **kwargs):
    tensors = args[1] if len(args) > 1 else ()
    start, payload = time.time_ns(), sum(tensor.nbytes for tensor in tensors)
    try:
        return original(*args, **kwargs)
    finally:
        session.messages.append(Span("message", start, time.time_ns(), payload))


def _read_ops(events: list, *, cuda: bool) -> Iterator[Op]:
    """Yield the profiler's events that matter: not the operators inside others."""
    kernels, starts, ends = [], {}, {}
    for e in events:
        if cuda and e.device_type() != DeviceType.CPU:
            kernels.append(e)
            continue
        name, start, thread = e.name(), e.start_ns(), e.start_thread_id()
        if cuda:
            starts[e.correlation_id()] = start
        if start < ends.get(thread, 0) and not name.startswith(CALLS + RUNS):
            continue
        stop, note = start + e.duration_ns(), e.is_user_annotation()
        if not note:
            ends[thread] = max(stop, ends.get(thread, 0))
        yield Op(name, start, stop, thread, note)
    for e in kernels:
        if not e.is_user_annotation():
            start, stream = e.start_ns(), e.device_resource_id()
            launch = starts.get(e.linked_correlation_id(), start)
            yield Op(e.name(), start, start + e.duration_ns(), stream, launch=launch)
