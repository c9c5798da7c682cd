"""One trace of what all ranks recorded: collectives are split into waits and calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from course_lib.tracing.events import Event, Trace


@dataclass(frozen=True)
class Mark:
    """What one rank recorded by itself, before ranks are compared; seconds of a clock.

    The `sequence`-th call of process group `group` is one collective on all its ranks;
    a send or receive has no group. Kind "cut" marks where recording was given up.
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
    marks = {rank: list(marks) for rank, marks in events_by_rank.items()}
    zero = min((m.start for own in marks.values() for m in own), default=0.0)
    cuts = [m for own in marks.values() for m in own if m.kind == "cut"]
    if cuts:
        # beyond the first cut the ranks can no longer be compared
        end = min(mark.start for mark in cuts)
        marks = {rank: [m for m in own if m.start < end] for rank, own in marks.items()}
        source = f"{source}, cut after {end - zero:.1f} s"
    return Trace(tuple(_split(marks, zero)), source)


def _split(marks: Mapping[int | str, list[Mark]], zero: float) -> Iterator[Event]:
    calls = {rank: list(_identify(own)) for rank, own in marks.items()}
    entries = {}
    for identity, mark in (pair for own in calls.values() for pair in own):
        entries[identity] = max(mark.start, entries.get(identity, mark.start))
    for rank, own in calls.items():
        for identity, mark in own:
            start, stop = mark.start - zero, mark.stop - zero
            entry = start if identity is None else min(entries[identity] - zero, stop)
            if entry > start:
                yield Event(rank, "wait", mark.name, start, entry)
            yield Event(rank, mark.kind, mark.name, entry, stop, mark.bytes)


def _identify(marks: list[Mark]) -> Iterator[tuple[tuple | None, Mark]]:
    # a group that is made anew counts from one again: the occurrence tells them apart
    seen = Counter()
    for mark in sorted(marks, key=lambda mark: mark.start):
        key = (mark.group, mark.sequence)
        seen[key] += 1
        yield (None if mark.group is None else (*key, seen[key])), mark
