"""The timeline of a run: when each rank computed, communicated or waited."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from course_lib.accelerators.memory import Change, Transfer
from course_lib.display import number_table
from course_lib.text import rank_name, rank_order

KINDS = ("compute", "communicate", "wait")
MESSAGES = ("send", "recv")


@dataclass(frozen=True)
class Event:
    """One stretch of time of one rank; `start` and `stop` in seconds since zero."""

    rank: int | str
    kind: str
    name: str
    start: float
    stop: float
    bytes: int = 0

    @property
    def duration(self) -> float:
        """Return stop - start in seconds."""
        return self.stop - self.start

    @property
    def is_traffic(self) -> bool:
        """Return whether it communicates, or waits in a collective for other ranks.

        Who waits for a message, or for its receiver, has nothing under way.
        """
        waits = self.kind == "wait" and self.name not in MESSAGES
        return waits or self.kind == "communicate"

    def __repr__(self) -> str:
        size = f"{self.bytes / 1e6:.3g} MB" if self.bytes >= 1e4 else f"{self.bytes} B"
        payload = f", {size}" if self.bytes else ""
        times = f"{self.start * 1e3:.2f}–{self.stop * 1e3:.2f} ms"
        return f"<{rank_name(self.rank)}: {self.kind} {self.name}, {times}{payload}>"


def both_ends(copy: Transfer) -> Iterator[Event]:
    """Yield the events of a copy, one per device; the first has the bytes."""
    times, on_host = (copy.start, copy.stop), copy.source == "cpu"
    if not on_host:
        label = f"{copy.name} to {copy.target}"
        yield Event(copy.source, "communicate", label, *times, copy.bytes)
    if copy.target != "cpu":
        label, size = f"{copy.name} from {copy.source}", copy.bytes if on_host else 0
        yield Event(copy.target, "communicate", label, *times, size)


@dataclass(frozen=True)
class Trace:
    """Events sorted by start, and where they come from ("measured: 2 ranks, gloo").

    On devices also each `memory.Transfer` by start and each `memory.Change` by time.
    `zero` is when its clock stood at 0, in seconds as `time.time()` tells them, so that
    what a rank noted by that fits in; None where that is not known or modelled.
    """

    events: tuple[Event, ...]
    source: str
    transfers: tuple[Transfer, ...] = ()
    memory: tuple[Change, ...] = ()
    zero: float | None = None

    def __post_init__(self):
        times, at = attrgetter("start", "stop"), attrgetter("time")
        for field, key in (("events", times), ("transfers", times), ("memory", at)):
            order = sorted(getattr(self, field), key=key)
            object.__setattr__(self, field, tuple(order))

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __repr__(self) -> str:
        noun = "devices" if isinstance(next(iter(self.ranks), 0), str) else "ranks"
        size = f"{len(self)} events, {len(self.ranks)} {noun}"
        return f"<Trace {self.source}: {size}, {self.span * 1e3:.2f} ms>"

    @property
    def ranks(self) -> tuple[int | str, ...]:
        """Return the ranks in order: 0, 1, 2 …, then devices by name and index."""
        return tuple(sorted({event.rank for event in self.events}, key=rank_order))

    @property
    def span(self) -> float:
        """Return the seconds from the first start to the last stop."""
        if not self.events:
            return 0.0
        return max(event.stop for event in self.events) - self.events[0].start

    def select(self, rank=None, kind=None, name=None) -> Trace:
        """Return the trace of the events that have this rank, kind and name.

        Transfers and memory stay whole.
        """
        wanted = {"rank": rank, "kind": kind, "name": name}
        chosen = tuple(event for event in self if _fits(event, wanted))
        return replace(self, events=chosen)

    def between(self, start: float, stop: float) -> Trace:
        """Return what happened from `start` to `stop` (seconds), events cut at both.

        So are transfers; memory begins with what is held at `start`.
        """
        window = start, stop
        events, copies = _cut(self.events, *window), _cut(self.transfers, *window)
        memory = _changes(self.memory, *window)
        return replace(self, events=events, transfers=copies, memory=memory)

    def time(self, rank, *kinds: str) -> float:
        """Return the seconds in which `rank` does any of `kinds`, each counted once."""
        return _length(self._union(rank, kinds))

    def busy(self, rank) -> float:
        """Return the share (0 to 1) of the whole span in which `rank` computes."""
        return self.time(rank, "compute") / self.span if self.span else 0.0

    def overlap(self, rank) -> float:
        """Return the seconds of `rank`'s communication hidden behind its own compute.

        These are the moments that lie in a compute event and also in a communicate
        event of the same rank, or in its wait for others in a collective; not in that
        for a message. A moment in several events counts once.
        """
        compute = self._union(rank, ("compute",))
        traffic = (e for e in self if e.rank == rank and e.is_traffic)
        other = _union((e.start, e.stop) for e in traffic)
        both = _length(_union([*compute, *other]))
        return max(0.0, _length(compute) + _length(other) - both)

    def bytes(self, rank) -> int:
        """Return the bytes that `rank` handed to its communicate events."""
        return sum(event.bytes for event in self.select(rank, "communicate"))

    def copied(self, *, source=None, target=None, name=None) -> list[int]:
        """Return the bytes of each transfer in order, of those that fit."""
        wanted = {"source": source, "target": target, "name": name}
        return [copy.bytes for copy in self.transfers if _fits(copy, wanted)]

    def steps(self) -> list[Trace]:
        """Return the training steps, each from the end of an optimizer to the next.

        The first step of a run has no optimizer before it and is left out. A step
        begins with the first rank and ends with the last one.
        """
        ends = filter(None, map(self._step_ends, self.ranks))
        times = itertools.pairwise(zip(*ends))
        return [self.between(min(one), max(other)) for one, other in times]

    def calls(self, rank=0) -> dict[str, int]:
        """Return how often `rank` called each collective, or copied, by name."""
        return dict(Counter(event.name for event in self.select(rank, "communicate")))

    def moved(self) -> dict[str, int]:
        """Return the bytes of all transfers by their name."""
        total = Counter()
        for copy in self.transfers:
            total[copy.name] += copy.bytes
        return dict(total)

    @property
    def bubble(self) -> float:
        """Return the share (0 to 1) of the time of all ranks in which none computes."""
        return 1 - sum(map(self.busy, self.ranks)) / max(1, len(self.ranks))

    def save(self, path) -> Path:
        """Write Chrome trace JSON for ui.perfetto.dev or chrome://tracing."""
        path = Path(path)
        events = [row for rank in self.ranks for row in self._chrome(rank)]
        document = {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {"source": self.source},
        }
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def _step_ends(self, rank) -> list[float]:
        """When each optimizer step ends; a pause inside one makes no second step."""
        ends, stepping = [], False
        for event in self.select(rank, "compute"):
            if event.name == "optimizer":
                ends[-1 if stepping else len(ends) :] = [event.stop]
                stepping = True
            elif event.name in ("forward", "backward"):
                stepping = False
        return ends

    def _union(self, rank, kinds) -> list[tuple[float, float]]:
        chosen = (e for e in self if e.rank == rank and e.kind in kinds)
        return _union((e.start, e.stop) for e in chosen)

    def _chrome(self, rank) -> Iterator[dict]:
        pid = rank if isinstance(rank, int) else 10_000 + self.ranks.index(rank)
        label = f"{rank_name(rank)} ({self.source})"
        yield _meta("process_name", {"name": label}, pid=pid)
        yield _meta("process_sort_index", {"sort_index": pid}, pid=pid)
        for number, kind in enumerate(KINDS):
            # one thread cannot hold slices that overlap without nesting
            for lane, events in enumerate(_lanes(self.select(rank, kind))):
                tid = 100 * number + lane
                name = kind if lane == 0 else f"{kind} {lane + 1}"
                yield _meta("thread_name", {"name": name}, pid=pid, tid=tid)
                yield _meta("thread_sort_index", {"sort_index": tid}, pid=pid, tid=tid)
                yield from (_slice(event, pid=pid, tid=tid) for event in events)

    def _repr_html_(self) -> str:
        heads = [*(f"{kind} (ms)" for kind in KINDS), "payload (MB)", "busy", "overlap"]
        title = f"{self.source}: {len(self)} events, {self.span * 1e3:.2f} ms"
        return number_table(heads, map(self._row, self.ranks), caption=title)

    def _row(self, rank):
        times = (f"{self.time(rank, kind) * 1e3:.2f}" for kind in KINDS)
        yield from (rank_name(rank), *times, f"{self.bytes(rank) / 1e6:.3f}")
        yield from (f"{self.busy(rank):.0%}", f"{self.overlap(rank) * 1e3:.2f} ms")


def happens_before(first: Event, second: Event) -> bool:
    """Return whether `first` has stopped by the time `second` starts."""
    return first.stop <= second.start


def _fits(thing, wanted: dict) -> bool:
    """Whether its fields have these values; None stands for any."""
    return all(v is None or getattr(thing, k) == v for k, v in wanted.items())


def _union(pairs: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    union = []
    for start, stop in sorted(pairs):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(stop, union[-1][1]))
        else:
            union.append((start, stop))
    return union


def _length(pairs: Iterable[tuple[float, float]]) -> float:
    return sum(stop - start for start, stop in pairs)


def _cut(stretches, start, stop) -> tuple:
    # a copy over an ideal link has no length and still belongs to where it starts
    return tuple(
        replace(s, start=max(s.start, start), stop=min(s.stop, stop))
        for s in stretches
        if s.start < stop and (s.stop > start or s.start == start)
    )


def _changes(memory, start, stop) -> tuple[Change, ...]:
    held = {}
    for change in memory:
        if change.time <= start:
            key = change.device, change.kind
            before = held[key].bytes if key in held else 0
            held[key] = replace(change, time=start, bytes=before + change.bytes)
    inside = (change for change in memory if start < change.time < stop)
    return (*(change for change in held.values() if change.bytes), *inside)


def _lanes(events: Iterable[Event]) -> list[list[Event]]:
    lanes = []
    for event in events:
        free = (lane for lane in lanes if lane[-1].stop <= event.start)
        lane = next(free, None)
        lanes.append([event]) if lane is None else lane.append(event)
    return lanes


def _slice(event: Event, *, pid: int, tid: int) -> dict:
    times = {"ts": event.start * 1e6, "dur": event.duration * 1e6}
    row = {"ph": "X", "name": event.name, "cat": event.kind, "pid": pid, "tid": tid}
    return row | times | {"args": {"bytes": event.bytes} if event.bytes else {}}


def _meta(name: str, args: dict, *, pid: int, tid: int = 0) -> dict:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}
