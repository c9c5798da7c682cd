"""One measured step of a rank: when gradients came, and which all-reduce took them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from course_lib.colors import role
from course_lib.errors import UsageError
from course_lib.plots.timeline import require_events
from course_lib.text import many, rank_name, short
from course_lib.tracing.events import Event, Trace

MOST = 40  # gradients, for a figure that can be read
SENT = "all_reduce"
_AGREE = 5e-6  # seconds between two readings of the machine's clock
_MARK = (
    "expected (name, bytes, time.time()) for each gradient, as a hook of"
    " register_post_accumulate_grad_hook notes them"
)
# why nothing says which gradients an all-reduce carries
UNSENT = "none follows in this backward"
ODD = "bytes of gradients in a row do not add up to those of all-reduces"
OPEN = "bytes and order leave more than one answer"
EARLY = "one began before its gradients were noted"


class ReadyGradient(NamedTuple):
    """A gradient with its bytes, and when it was there (seconds since the first)."""

    name: str
    bytes: int
    time: float


class Travel(NamedTuple):
    """A collective or message: entered at `start`, by all at `entry`; in seconds.

    `number` counts the all-reduces of a step from 1, and is 0 for all others.
    """

    name: str
    bytes: int
    start: float
    entry: float
    stop: float
    number: int = 0

    @property
    def title(self) -> str:
        """Return its name: `all-reduce 2`, `broadcast`."""
        return f"all-reduce {self.number}" if self.number else self.name


class PlayedStep(NamedTuple):
    """What one rank does in a step; times in seconds since its backward began.

    `ready` are gradients in the order in which they came, `buckets` their numbers by
    the number of the all-reduce that carried them, `why` says by the number of a
    gradient why its all-reduce is not known. `traffic` and `hidden` are the seconds in
    which something is under way, and in which backward computes meanwhile, until the
    last gradient is there.
    """

    which: str
    source: str
    compute: tuple[Event, ...]
    sent: list[Travel]
    ready: list[ReadyGradient]
    buckets: dict[int, list[int]]
    why: dict[int, str]
    traffic: float
    hidden: float

    @property
    def times(self) -> list[float]:
        """Return the starts and stops of all that is drawn."""
        bars = [time for bar in self.compute for time in (bar.start, bar.stop)]
        ways = [time for way in self.sent for time in (way.start, way.stop)]
        return bars + ways + [gradient.time for gradient in self.ready]

    @property
    def after(self) -> float:
        """Return the seconds from the last gradient to the end of what is sent."""
        if not self.ready or not self.sent:
            return 0.0
        return max(0.0, max(it.stop for it in self.sent) - self.ready[-1].time)

    def bucket_of(self, number: int) -> int:
        """Return the all-reduce that carried a gradient; 0 where that is not known."""
        them = self.buckets.items()
        return next((bucket for bucket, inside in them if number in inside), 0)

    def filled(self, number: int) -> tuple[int, int]:
        """Return the bytes in its bucket when a gradient has come, and in the end."""
        inside = self.buckets[self.bucket_of(number)]
        held = sum(self.ready[i].bytes for i in inside if i <= number)
        return held, sum(self.ready[i].bytes for i in inside)

    def place_of(self, bucket: int) -> int:
        """Return the place of an all-reduce in `sent`."""
        return next(i for i, it in enumerate(self.sent) if it.number == bucket)

    def until(self, number: int) -> float:
        """Return when the next gradient comes, or its bucket leaves before that."""
        leaves = self.sent[self.place_of(self.bucket_of(number))].start
        later = (it.time for it in self.ready[number + 1 :])
        return max(self.ready[number].time, min(leaves, next(later, leaves)))


def read_step(name: str, given, step: int | None) -> PlayedStep:
    """Return the median step of a run or the one asked for; `given` as for `overlap`.

    Errors: `UsageError` for what is no trace, for marks of another clock or form, for
    more than 40 gradients, for a step that is not there.
    """
    named = f"{name}: " if name else ""
    trace, marks = _parts(given, named)
    noted = _noted(marks, trace, named)
    rank = trace.ranks[0]
    # by its own steps: where ranks were disturbed, those of all may hold two
    part, which = _chosen(trace.select(rank), step, named)
    which = f"{rank_name(rank)}, {which}" if which else rank_name(rank)
    own = [*part]
    zero = next((e.start for e in own if _backward(e)), own[0].start)
    first, last = part.events[0].start, max(event.stop for event in part)
    ready = [
        gradient._replace(time=gradient.time - zero)
        for gradient in noted
        if first <= gradient.time <= last
    ]
    if len(ready) > MOST:
        raise UsageError(
            f"{named}cannot show {many(len(ready), 'gradient')}: the figure has room"
            f" for {MOST}"
        )
    sent = list(_travels(own, zero))
    compute = tuple(_earlier(event, zero) for event in own if event.kind == "compute")
    buckets, why = _buckets(ready, sent)
    shares = _shares(own, zero + ready[-1].time if ready else math.inf)
    source = part.source
    return PlayedStep(which, source, compute, sent, ready, buckets, why, *shares)


def _shares(own, last):
    """Return the seconds of communication, and of these under backward until `last`.

    Behind the last gradient, DDP's backward only puts averages into gradients.
    """
    rank, traffic = own[0].rank, [event for event in own if event.is_traffic]
    back = [
        Event(rank, "compute", event.name, event.start, min(event.stop, last))
        for event in own
        if _backward(event) and event.start < last
    ]
    whole = Trace((*traffic, *back), "")
    return whole.time(rank, "communicate", "wait"), whole.overlap(rank)


def _backward(event):
    return event.kind == "compute" and role(event.kind, event.name) == "backward"


def _earlier(event, zero):
    times = event.start - zero, event.stop - zero
    return Event(event.rank, event.kind, event.name, *times, event.bytes)


# --- what was given


def _parts(given, named):
    """Return a trace and its marks, after a check."""
    pair = isinstance(given, tuple | list) and len(given) == 2
    trace, marks = given if pair else (given, ())
    if trace is not None and not isinstance(trace, Trace):
        found, hint = type(trace).__name__, ""
        if isinstance(getattr(trace, "trace", None), Trace):
            hint = ": give its `.trace`"
        raise UsageError(
            f"{named}expected a trace, or a trace and the marks of its gradients,"
            f" found {found}{hint}"
        )
    trace = require_events(trace, named)
    for event in trace:
        if not (math.isfinite(event.start) and math.isfinite(event.stop)):
            raise UsageError(f"{named}{event.name} has no time: {event.start}")
    return trace, marks


def _noted(marks, trace, named):
    """Return the marks by time, on the clock of the trace."""
    if not isinstance(marks, list | tuple):
        raise UsageError(f"{named}{_MARK}; found {short(marks)}")
    checked = [_checked(mark, named) for mark in marks]
    if checked and trace.zero is None:
        raise UsageError(
            f"{named}nobody knows when this trace began, so that marks have no place in"
            " it: give one that `cl.launch` has recorded"
        )
    own = [mark._replace(time=mark.time - trace.zero) for mark in checked]
    rows = sorted(own, key=lambda mark: mark.time)
    first, last = trace.events[0].start, max(event.stop for event in trace)
    if rows and not any(first <= mark.time <= last for mark in rows):
        raise UsageError(
            f"{named}no mark lies in the trace: note time.time(), which is its clock"
        )
    return rows


def _checked(mark, named):
    if isinstance(mark, tuple | list) and len(mark) == 3:
        name, count, time = mark
        real = type(time) in (int, float) and math.isfinite(time)
        if isinstance(name, str) and type(count) is int and count >= 0 and real:
            return ReadyGradient(name, count, time)
    raise UsageError(f"{named}{_MARK}; found {short(mark)}")


def _chosen(trace, step, named):
    """Return a step with its name; the whole trace where it has none."""
    steps = trace.steps()
    if step is None:
        if not steps:
            return trace, ""
        order = sorted(range(len(steps)), key=lambda i: steps[i].span)
        step = order[len(order) // 2]
        kind = ", the median" if len(steps) > 1 else ""
        return steps[step], f"step {step} of {len(steps)}{kind}"
    if type(step) is not int or not 0 <= step < len(steps):
        raise UsageError(
            f"{named}there is no step {short(step)}: `trace.steps()` has"
            f" {many(len(steps), 'step')}, counted from 0"
        )
    return steps[step], f"step {step} of {len(steps)}"


def _travels(events, zero) -> Iterator[Travel]:
    """Yield what is sent, each with the wait for other ranks that stands before it."""
    waits = {(e.name, e.stop): e.start for e in events if e.kind == "wait"}
    rows = [
        (waits.pop((e.name, e.start), e.start), e)
        for e in events
        if e.kind == "communicate"
    ]
    number = 0
    for start, event in sorted(rows, key=lambda row: (row[0], row[1].start)):
        number += event.name == SENT
        times = start - zero, event.start - zero, event.stop - zero
        counted = number if event.name == SENT else 0
        yield Travel(event.name, event.bytes, *times, counted)


# --- which all-reduce carried which gradient


def _buckets(ready, sent):
    """Return the gradients of each all-reduce, and for others why it has none."""
    buckets, why = {}, {}
    begin = -math.inf
    for first, stop, end in _passes(ready):
        ways = [it for it in sent if it.number and begin <= it.start < end]
        begin = end
        found = carried(ready[first:stop], ways)
        if isinstance(found, str):
            why |= dict.fromkeys(range(first, stop), found)
            continue
        for number, inside in found.items():
            buckets[number] = [first + i for i in inside]
    return buckets, why


def _passes(ready):
    """Yield first, stop, and time of the next one, of gradients until a name recurs."""
    first, seen = 0, set()
    for number, gradient in enumerate(ready):
        if gradient.name in seen:
            yield first, number, gradient.time
            first, seen = number, set()
        seen.add(gradient.name)
    if ready:
        yield first, len(ready), math.inf


def carried(
    ready: Sequence[ReadyGradient], sent: Sequence[Travel]
) -> dict[int, list[int]] | str:
    """Return the numbers of gradients by the number of their all-reduce, or why not.

    Gradients fill all-reduces in the order in which they came, or in the opposite one
    as in a loop over all parameters. Each must be in one, bytes must add up, and none
    may have left before it was there. If more than one answer is left, none is given.
    """
    if answers := _answers(ready, sent, _AGREE):
        return answers[0] if len(answers) == 1 else OPEN
    if _answers(ready, sent, math.inf):
        return EARLY
    return ODD if any(it.start >= ready[0].time for it in sent) else UNSENT


def _answers(ready, sent, late):
    """Return the first two answers in which nothing leaves more than `late` too early.

    Other all-reduces may stand between, as that of a loss.
    """
    found = []
    for order in (list(range(len(ready))), list(range(len(ready)))[::-1]):
        for answer in _readings(order, ready, sent, late):
            if answer not in found:
                found.append(answer)
    return found[:2]


def _readings(order, ready, sent, late):
    held = [0, *accumulate(ready[i].bytes for i in order)]
    # how many gradients have left: the ways to get there, of which two are enough
    ways: dict[int, list[dict]] = {0: [{}]}
    for it in sent:
        for count in sorted(ways, reverse=True):
            stop = bisect_right(held, held[count] + it.bytes) - 1
            if stop == count or held[stop] != held[count] + it.bytes:
                continue
            inside = sorted(order[count:stop])
            if max(ready[i].time for i in inside) <= it.start + late:
                more = [way | {it.number: inside} for way in ways[count]]
                ways[stop] = [*ways.get(stop, []), *more][:2]
    return ways.get(len(order), [])
