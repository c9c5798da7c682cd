"""Record what one rank does: PyTorch's profiler turned into marks for `timeline.merge`.

The first half works on plain data: times are nanoseconds of the machine's clock, which
all processes of the machine share. The second half runs the profiler.
"""

from __future__ import annotations

import _thread
import json
import math
import os
import re
import signal
import threading
import time
import warnings
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial, wraps
from typing import NamedTuple

import torch
from torch.autograd import DeviceType, _profiler_enabled
from torch.autograd.profiler import profile
from torch.nn.modules import module as modules

from course_lib.timeline import Mark

LIMIT = 100_000  # raw operators: at most 200 MB and a second of post-processing
WEIGHT = 250  # bytes that the profiler keeps per raw operator while it runs
POLL = 0.25  # seconds between two looks at the memory
PATIENCE = 3.0  # seconds until the raw operators are counted for the first time
GAP = 1_000_000  # ns: a longer pause between two operators is no compute
SHORT = 100_000  # ns: the same while a collective runs, since it may be waited for
TINY = 20_000  # ns: an operator this short joins its neighbour

_STATM = "/proc/self/statm"

_TAKEN = (
    "nothing was recorded: another profiler ran in the block, and PyTorch runs one at "
    "a time. Take it out, or launch without trace=True."
)

CALLS = ("c10d::", "_c10d_functional::")
RUNS = ("gloo:", "ncclDevKernel", "ncclKernel")
NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "reduce_scatter": "reduce_scatter",
    "reducescatter": "reduce_scatter",
    "broadcast": "broadcast",
    "recv": "recv",
}
WIDTHS = {
    **dict.fromkeys(("Byte", "Char", "Bool"), 1),
    **dict.fromkeys(("Short", "Half", "BFloat16"), 2),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}


class Op(NamedTuple):
    """A raw profiler event; `launch` is when the host started a device's kernel."""

    name: str
    start: int
    stop: int
    thread: int = 0
    note: bool = False  # an annotation, such as "gloo:all_reduce", and no operator
    launch: int | None = None


class Call(NamedTuple):
    """A collective as the flight recorder saw it when it was handed in."""

    name: str
    start: int
    bytes: int
    group: str
    sequence: int


class Span(NamedTuple):
    """A named stretch seen from Python: a region, or a message with its bytes."""

    name: str
    start: int
    stop: int
    bytes: int = 0


def read_calls(entries: Iterable[dict]) -> list[Call]:
    """Return the flight recorder's entries as calls, in order; new groups renamed."""
    last, made, calls = {}, Counter(), []
    for entry in sorted(entries, key=lambda entry: entry["record_id"]):
        group, sequence = entry["process_group"][0], entry["collective_seq_id"]
        # a group that was destroyed and made anew counts from one again
        made[group] += sequence <= last.get(group, 0)
        last[group] = sequence
        sizes = zip(entry["input_sizes"], entry["input_dtypes"], strict=False)
        payload = sum(math.prod(size) * WIDTHS.get(kind, 4) for size, kind in sizes)
        name, start = entry["profiling_name"], entry["time_created_ns"]
        if not entry.get("is_p2p"):
            group = f"{group}.{made[group]}"
            calls.append(Call(name, start, payload, group, sequence))
    return calls


def outermost(spans: Iterable) -> list:
    """Return the spans that no other span of their thread contains, by start."""
    ends, kept = {}, []
    for span in sorted(spans, key=lambda span: (span.start, -span.stop)):
        thread = getattr(span, "thread", 0)
        if span.start >= ends.get(thread, 0):
            ends[thread] = span.stop
            kept.append(span)
    return kept


def cut_out(ops: Iterable[Op], holes: Iterable[Op]) -> Iterator[Op]:
    """Yield the pieces of `ops` that lie outside the holes of their own thread."""
    by_thread = defaultdict(list)
    for hole in outermost(holes):
        by_thread[hole.thread].append(hole)
    for op in ops:
        for hole in _touching(op, by_thread[op.thread]):
            if hole.start > op.start:
                yield op._replace(stop=hole.start)
            op = op._replace(start=min(hole.stop, op.stop))
        if op.stop > op.start:
            yield op


def _touching(op: Op, holes: list[Op]) -> list[Op]:
    first = bisect_right(holes, op.start, key=lambda hole: hole.stop)
    last = bisect_right(holes, op.stop, key=lambda hole: hole.start)
    return holes[first:last]


def within(spans: list, moment: int):
    """Return the span that contains `moment`, or None; the spans are disjoint."""
    index = bisect_right(spans, moment, key=lambda span: span.start) - 1
    return spans[index] if index >= 0 and moment <= spans[index].stop else None


def work(ops: list[Op]) -> list[Op]:
    """Return the pieces that are compute: kernels if there are any, else operators."""
    kernels = [op for op in ops if op.launch is not None]
    if kernels:
        return [op for op in kernels if not op.name.startswith(RUNS)]
    threads = {op.thread for op in ops if op.note and _is_collective(op)}
    plain = [op for op in ops if not op.note and op.thread not in threads]
    holes = [op for op in plain if op.name.startswith(CALLS)]
    return list(cut_out(outermost(plain), holes))


def segments(ops: list[Op], regions: Iterable[Span]) -> list[Mark]:
    """Return the compute of a rank: neighbours of one region joined, pauses kept."""
    regions = outermost(regions)
    kernels = any(op.launch is not None for op in ops)
    hosts = outermost(op for op in ops if op.launch is None and not op.note and kernels)
    runs = outermost(op._replace(thread=0) for op in ops if op.name.startswith(RUNS))
    rows = []
    for op in sorted(work(ops), key=lambda op: op.start):
        moment = op.start if op.launch is None else op.launch
        region = within(regions, moment)
        host = op if op.launch is None else within(hosts, moment) or op
        name = region.name if region else _operator(host.name)
        row = [region, name, op.start, op.stop, op.stop - op.start]
        if not (rows and _near(rows[-1], row, runs) and _join(rows[-1], row)):
            rows.append(row)
    return [_mark("compute", row[1], Span("", row[2], row[3])) for row in rows]


def _near(last: list, row: list, runs: list[Op]) -> bool:
    pause = row[2] - last[3]
    if pause <= SHORT:
        return True
    return pause <= GAP and not _touching(Op("", last[3], row[2]), runs)


def _join(last: list, row: list) -> bool:
    """Extend the last row by the next one if both are the same piece of work."""
    same = row[1] == last[1] or min(row[4], last[4]) < TINY
    if row[0] is not last[0] or not same:
        return False
    if row[4] > last[4]:
        last[1], last[4] = row[1], row[4]
    last[3] = max(last[3], row[3])
    return True


def communication(ops: list[Op], calls: list[Call], messages: list[Span]) -> list[Mark]:
    """Return the collectives, sends and receives of a rank, by start."""
    hosts = outermost(op for op in ops if op.name.startswith("c10d::"))
    barriers = [host for host in hosts if "monitored" in host.name]
    runs = [op for op in ops if op.name.startswith(RUNS)]
    runs = [run for run in runs if not within(barriers, run.start)] + barriers
    marks, seen, messages = {}, Counter(), outermost(messages)
    for run, call in _pair(sorted(runs, key=lambda run: run.start), calls, hosts):
        host = within(hosts, call.start if call else run.launch or run.start)
        name = _collective((host or run).name)
        if name in ("send", "recv"):
            message = within(messages, run.launch or run.start)
            mark = _mark(
                "communicate", name, run, bytes=message.bytes if message else 0
            )
        elif call:
            found = {"bytes": call.bytes, "group": call.group}
            mark = _mark("communicate", name, run, **found, sequence=call.sequence)
        else:
            seen[name] += 1
            mark = _mark("communicate", name, run, group=name, sequence=seen[name])
        key = host if call and host else run
        marks[key] = _together(marks[key], mark) if key in marks else mark
    return sorted(marks.values(), key=lambda mark: mark.start)


def _pair(runs: list[Op], calls: list[Call], hosts: list[Op]) -> Iterator[tuple]:
    # gloo starts its calls in the order they came; a kernel knows who launched it
    queues, by_host = defaultdict(deque), {}
    for call in calls:
        queues[call.name].append(call)
        by_host.setdefault(within(hosts, call.start), call)
    for run in runs:
        queue = queues[run.name]
        if run.launch is not None:
            host = within(hosts, run.launch)
            yield run, by_host.get(host) if host else None
        else:
            fits = queue and queue[0].start <= run.start + TINY
            yield run, queue.popleft() if fits else None


def _together(a: Mark, b: Mark) -> Mark:
    # reduce_scatter of a list is one all-reduce per rank in gloo
    times = {"start": min(a.start, b.start), "stop": max(a.stop, b.stop)}
    return replace(a, **times, bytes=a.bytes + b.bytes)


def _mark(kind: str, name: str, span, **found) -> Mark:
    return Mark(kind, name, span.start / 1e9, span.stop / 1e9, **found)


def _operator(name: str) -> str:
    """Return "matmul" for "aten::matmul"."""
    return "backward" if name.startswith("autograd::") else name.rpartition("::")[2]


def _collective(name: str) -> str:
    """Return "all_reduce" for "c10d::allreduce_" and "ncclDevKernel_AllReduce"."""
    bare = re.sub("^(c10d::|gloo:|ncclDevKernel_|ncclKernel_)", "", name)
    bare = bare.strip("_").lower()
    return next((NAMES[key] for key in NAMES if bare.startswith(key)), bare)


def _is_collective(op: Op) -> bool:
    return op.name.startswith("gloo:") and _collective(op.name) not in ("send", "recv")


class Tape:
    """What one rank did: `events`, plain marks for `timeline.merge`."""

    def __init__(self):
        self.events: tuple[Mark, ...] = ()

    def __repr__(self) -> str:
        return f"<Tape of {len(self.events)} marks>"


@contextmanager
def record(*, cuda: bool | None = None, limit: int = LIMIT) -> Iterator[Tape]:
    """Record this rank in the block and fill the tape at its end, also on an exception.

    `cuda` adds the kernels of GPUs (default: if CUDA is already in use). After `limit`
    raw operators recording stops and the tape ends with a mark of kind "cut". PyTorch
    runs one profiler at a time: with a second one in the block the tape stays empty.
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
        _watch(session, stack)
        try:
            yield tape
        finally:
            session.stop()
            tape.events = tuple(sorted(session.marks, key=lambda mark: mark.start))


class _Session:
    """The running profiler and what the hooks saw meanwhile."""

    def __init__(self, *, cuda: bool, limit: int):
        self.cuda, self.room, self.patience = cuda, limit, PATIENCE
        self.thread = threading.get_ident()
        self.marks, self.regions, self.messages, self.open = [], [], [], []
        self.profile = None

    def start(self) -> None:
        device = "cuda" if self.cuda else None
        self.profile = profile(use_kineto=True, use_device=device)
        self.memory, self.since = _resident(), time.time_ns()
        self.profile.__enter__()

    def stop(self) -> None:
        """End the profiler and turn what it saw into marks."""
        # forgotten first, since a check may come in between
        running, self.profile = self.profile, None
        if running is None:
            return
        if not _profiler_enabled():
            warnings.warn(_TAKEN, stacklevel=2)
            return
        running.__exit__(None, None, None)
        now, result = time.time_ns(), running.kineto_results
        events = result.events() if result else []
        if len(events) >= self.room:
            now = events[self.room - 1].start_ns()
            self.marks.append(_mark("cut", "", Span("", now, now)))
        ops = list(_read_ops(events[: self.room], cuda=self.cuda))
        self.room = max(0, self.room - len(events))
        steps = [op for op in ops if op.note and op.name.startswith("Optimizer.step")]
        regions = [Span("optimizer", op.start, op.stop) for op in steps]
        regions += self.regions + [Span(*region, now) for region in self.open[:1]]
        calls = [c for c in read_calls(_entries()) if self.since <= c.start <= now]
        self.marks += segments(ops, regions) + communication(ops, calls, self.messages)

    def is_due(self) -> bool:
        """Return whether the limit may be reached, by the memory or by the time."""
        seconds, grown = time.time() - self.since / 1e9, _resident() - self.memory
        return seconds > (2 * POLL if grown > WEIGHT * self.room else self.patience)

    def check(self) -> None:
        """Count what was recorded so far; go on if there is room for more."""
        if self.profile is not None:
            before = self.room
            self.stop()
            if self.room > 0:
                self.patience *= max(1, self.room / (before - self.room + 1) / 2)
                self.start()

    def enter(self, name: str) -> None:
        if threading.get_ident() == self.thread:
            self.open.append((name, time.time_ns()))

    def leave(self) -> None:
        if threading.get_ident() == self.thread and self.open:
            name, start = self.open.pop()
            if not self.open:
                self.regions.append(Span(name, start, time.time_ns()))


def _hook(session: _Session, stack: ExitStack) -> None:
    """Let forward, backward and messages tell the session, until the stack closes."""

    def before(module, args):
        session.enter("forward")

    def after(module, args, output):
        session.leave()

    handle = modules.register_module_forward_pre_hook(before)
    stack.callback(handle.remove)
    handle = modules.register_module_forward_hook(after, always_call=True)
    stack.callback(handle.remove)
    for name in ("backward", "grad"):
        _patch(stack, (torch.autograd, name), partial(_backward, session))
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


def _watch(session: _Session, stack: ExitStack) -> None:
    """Let the main thread check the session between two lines, when it is due."""
    main = threading.current_thread() is threading.main_thread()
    if not (main and os.path.exists(_STATM)):
        return  # the limit is then applied at the end
    over = threading.Event()

    def poll():
        while not over.wait(POLL):
            if session.is_due():
                # no real signal: nothing that the rank waits for is interrupted
                _thread.interrupt_main(signal.SIGVTALRM)

    previous = signal.signal(signal.SIGVTALRM, lambda *_: session.check())
    stack.callback(signal.signal, signal.SIGVTALRM, previous)
    stack.callback(over.set)
    threading.Thread(target=poll, name="recorder", daemon=True).start()


def _resident() -> int:
    """Return the bytes of memory that this process holds, 0 where it is unknown."""
    try:
        with open(_STATM, encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


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


def _entries() -> list[dict]:
    """Return what PyTorch's flight recorders hold: gloo's, and nccl's where it is."""
    library = getattr(torch._C, "_distributed_c10d", None)
    names = ("_dump_fr_trace_json", "_dump_nccl_trace_json")
    dumps = [getattr(library, name) for name in names if hasattr(library, name)]
    found = (json.loads(dump(True, False)) for dump in dumps)
    return [entry for one in found for entry in one.get("entries", [])]
