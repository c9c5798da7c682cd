"""From the profiler's raw events to the marks of one rank.

Times are nanoseconds of the machine's clock, which all processes of the machine share.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from torch.autograd import DeviceType
from torch.profiler import record_function

from course_lib.tracing.events import MESSAGES
from course_lib.tracing.flight_recorder import Call
from course_lib.tracing.merge import Mark

GAP = 1_000_000  # ns: a longer pause between two operators is no compute
SHORT = 100_000  # ns: the same while a collective runs, since it may be waited for
TINY = 20_000  # ns: an operator this short joins its neighbour

_MARK = "course_lib: "  # before the name of a phase, to know it again
CALLS = ("c10d::", "_c10d_functional::")
RUNS = ("gloo:", "ncclDevKernel", "ncclKernel")
RUNTIME = re.compile("cu(da)?[A-Z]")  # calls such as cudaLaunchKernel, cuLaunchKernel
NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "reduce_scatter": "reduce_scatter",
    "reducescatter": "reduce_scatter",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "recv": "recv",
}


class Op(NamedTuple):
    """A raw profiler event; `launch` is when the host started a device's kernel."""

    name: str
    start: int
    stop: int
    thread: int = 0
    note: bool = False  # an annotation, such as "gloo:all_reduce", and no operator
    launch: int | None = None


class Span(NamedTuple):
    """A named stretch: a phase of a training step, or a message: its route, bytes."""

    name: str
    start: int
    stop: int
    bytes: int = 0


def note_phase(name: str, module=None) -> record_function:
    """Note a phase in the profile while the context lasts, for `noted_phases`."""
    return record_function(_MARK + name)


def noted_phases(notes: Iterable) -> list[Span]:
    """Return forwards, backwards and optimizer steps among notes of a profile."""
    spans = []
    for note in notes:
        if note.name.startswith(_MARK):
            name = note.name.removeprefix(_MARK)
        elif note.name.startswith("Optimizer.step#"):
            name = "optimizer"
        else:
            continue
        spans.append(Span(name, note.start, note.stop))
    return outermost(spans)


def read_ops(events: list, *, cuda: bool) -> Iterator[Op]:
    """Yield the profiler's events that matter: not the operators inside others."""
    kernels, starts, ends = [], {}, {}
    for e in events:
        if cuda and e.device_type() != DeviceType.CPU:
            kernels.append(e)
            continue
        name, start, thread = e.name(), e.start_ns(), e.start_thread_id()
        # no operators; their correlation_id is counted apart, and would meet another's
        if RUNTIME.match(name):
            continue
        if cuda:
            starts[e.correlation_id()] = start
        stop, note = start + e.duration_ns(), e.is_user_annotation()
        # a dispatch mode has the notes that it sees begin inside an operator, too
        if start < ends.get(thread, 0) and not (note or name.startswith(CALLS + RUNS)):
            continue
        if not note:
            ends[thread] = max(stop, ends.get(thread, 0))
        yield Op(name, start, stop, thread, note)
    for e in kernels:
        if not e.is_user_annotation():
            start, stream = e.start_ns(), e.device_resource_id()
            launch = starts.get(e.linked_correlation_id(), start)
            yield Op(e.name(), start, start + e.duration_ns(), stream, launch=launch)


def outermost(spans: Iterable) -> list:
    """Return the spans that no other span of their thread contains, by start."""
    ends, outer = {}, []
    for span in sorted(spans, key=lambda span: (span.start, -span.stop)):
        thread = getattr(span, "thread", 0)
        if span.start >= ends.get(thread, 0):
            ends[thread] = span.stop
            outer.append(span)
    return outer


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


def work(ops: list[Op], waits: Iterable[tuple[int, int]] = ()) -> list[Op]:
    """Return the pieces that are compute: kernels if there are any, else operators.

    A hook of backward runs within an operator, as FSDP2's. What it waits for in `waits`
    is no compute: starts and ends of `Work.wait`.
    """
    kernels = [op for op in ops if op.launch is not None]
    if kernels:
        return [op for op in kernels if not op.name.startswith(RUNS)]
    threads = {op.thread for op in ops if op.note and _is_collective(op)}
    plain = [op for op in ops if not op.note and op.thread not in threads]
    holes = [op for op in plain if op.name.startswith(CALLS)]
    return list(cut_out(outermost(plain), [*holes, *_waiting(holes, waits)]))


def _waiting(calls: list[Op], waits: Iterable[tuple[int, int]]) -> Iterator[Op]:
    """Yield the waits that follow a call at once, in its thread."""
    calls = outermost(calls)
    for start, stop in waits:
        index = bisect_right(calls, start, key=lambda call: call.start) - 1
        if index >= 0 and start - calls[index].stop < SHORT:
            yield Op("wait", start, stop, calls[index].thread)


def segments(
    ops: list[Op], spans: Iterable[Span], waits: Iterable[tuple[int, int]] = ()
) -> list[Mark]:
    """Return the compute of a rank: neighbours of one phase joined, pauses kept."""
    spans = outermost(spans)
    kernels = any(op.launch is not None for op in ops)
    hosts = outermost(op for op in ops if op.launch is None and not op.note and kernels)
    runs = outermost(op._replace(thread=0) for op in ops if op.name.startswith(RUNS))
    rows = []
    for op in sorted(work(ops, waits), key=lambda op: op.start):
        moment = op.start if op.launch is None else op.launch
        phase = within(spans, moment)
        host = op if op.launch is None else within(hosts, moment) or op
        name = phase.name if phase else _operator(host.name)
        row = [phase, name, op.start, op.stop, op.stop - op.start]
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


def communication(
    ops: list[Op], calls: list[Call], messages: list[Span], *, awaited=()
) -> list[Mark]:
    """Return the collectives, sends and receives of a rank, by start.

    What begins in one of the spans `awaited` has ended when the span does, but for a
    kernel: the host goes on without it.
    """
    awaited = outermost(awaited)
    hosts = outermost(op for op in ops if op.name.startswith("c10d::"))
    barriers = [host for host in hosts if "monitored" in host.name]
    runs = [op for op in ops if op.name.startswith(RUNS)]
    runs = [run for run in runs if not within(barriers, run.start)] + barriers
    messages = outermost(messages)
    marks, counts = {}, Counter()
    numbers = {message: _next(counts, message.name) for message in messages}
    for run, call in _pair(sorted(runs, key=lambda run: run.start), calls, hosts):
        # gloo's thread notes the end after it told the waiting one, which may use the
        # core meanwhile
        end = within(awaited, run.start) if run.launch is None else None
        run = run._replace(stop=min(run.stop, end.stop)) if end else run
        host = within(hosts, call.start if call else run.launch or run.start)
        name = collective_name((host or run).name)
        if name in MESSAGES:
            message = within(messages, run.launch or run.start)
            fields = {"bytes": message.bytes if message else 0}
            if message and message.name:
                fields |= {"group": message.name, "sequence": numbers[message]}
            if message and run.launch is None:
                # gloo notes a start when the message may have gone already
                run = run._replace(start=message.start)
        elif call:
            group = f"{call.backend}:{call.group}.{call.generation}"
            fields = {"bytes": call.bytes, "group": group, "sequence": call.number}
        else:
            fields = {"group": name, "sequence": _next(counts, name)}
        mark = _mark("communicate", name, run, **fields)
        key = host if call and host else run
        marks[key] = _together(marks[key], mark) if key in marks else mark
    return sorted(marks.values(), key=lambda mark: mark.start)


def _next(counts: Counter, name: str) -> int:
    counts[name] += 1
    return counts[name]


def _pair(runs: list[Op], calls: list[Call], hosts: list[Op]) -> Iterator[tuple]:
    # gloo starts its calls in the order they came; a kernel knows who launched it
    queues, by_host = defaultdict(deque), {}
    for call in calls:
        queues[f"{call.backend}:{call.name}"].append(call)
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
    start, stop = min(a.start, b.start), max(a.stop, b.stop)
    return replace(a, start=start, stop=stop, bytes=a.bytes + b.bytes)


def _mark(kind: str, name: str, span, **fields) -> Mark:
    return Mark(kind, name, span.start / 1e9, span.stop / 1e9, **fields)


def _operator(name: str) -> str:
    """Return "matmul" for "aten::matmul"."""
    return "backward" if name.startswith("autograd::") else name.rpartition("::")[2]


def collective_name(name: str) -> str:
    """Return "all_reduce" for "c10d::allreduce_" and "ncclDevKernel_AllReduce"."""
    bare = re.sub("^(c10d::|gloo:|ncclDevKernel_|ncclKernel_)", "", name)
    bare = bare.strip("_").lower()
    return next((NAMES[key] for key in NAMES if bare.startswith(key)), bare)


def _is_collective(op: Op) -> bool:
    return op.name.startswith("gloo:") and collective_name(op.name) not in MESSAGES
