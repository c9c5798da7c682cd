"""One trace of what all ranks recorded: collectives are split into waits and calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from course_lib.tracing.events import Event, Trace


@dataclass(frozen=True)
class Mark:
    """What one rank recorded by itself, before ranks are compared; seconds of a clock.

    The `sequence`-th call of process group `group` is one collective on all its ranks;
    a group that is made anew has another name, a send or receive has none. Kind "cut"
    marks where recording was given up.
    """

    kind: str
    name: str
    start: float
    stop: float
    bytes: int = 0
    group: str | None = None
    sequence: int = 0


def merge(events_by_rank: Mapping[int | str, Iterable[Mark]], source: str) -> Trace:
    """Return one trace of all ranks: zero at the earliest start, collectives split.

    A rank's collective is "wait" from its own entry until the last rank's entry, or
    its own stop if that comes first, and "communicate" (with the bytes) after that.
    """
    by_rank = {rank: list(marks) for rank, marks in events_by_rank.items()}
    every = list(chain.from_iterable(by_rank.values()))
    zero = min((mark.start for mark in every), default=0.0)
    cuts = [mark.start for mark in every if mark.kind == "cut"]
    if cuts:
        # beyond the first cut the ranks can no longer be compared
        end = min(cuts)
        for rank, marks in by_rank.items():
            by_rank[rank] = [mark for mark in marks if mark.start < end]
        source = f"{source}, cut after {end - zero:.1f} s"
    return Trace(tuple(_split(by_rank, zero)), source)


def _split(by_rank: Mapping[int | str, list[Mark]], zero: float) -> Iterator[Event]:
    entries = {}
    for mark in chain.from_iterable(by_rank.values()):
        call = mark.group, mark.sequence
        entries[call] = max(mark.start, entries.get(call, mark.start))
    for rank, marks in by_rank.items():
        for mark in marks:
            start, stop = mark.start - zero, mark.stop - zero
            last = entries[mark.group, mark.sequence] - zero
            entry = start if mark.group is None else min(last, stop)
            if entry > start:
                yield Event(rank, "wait", mark.name, start, entry)
            yield Event(rank, mark.kind, mark.name, entry, stop, mark.bytes)
