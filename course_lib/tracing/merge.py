"""One trace of what all ranks recorded: collectives are split into waits and calls."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from course_lib.tracing.events import KINDS, MESSAGES, Event, Trace


@dataclass(frozen=True)
class Mark:
    """What one rank recorded by itself, before ranks are compared; seconds of a clock.

    The `sequence`-th call of process group `group` is one collective on all its ranks;
    a group that is made anew has another name. Of a message it is the `sequence`-th of
    route `group`, on two ranks; None where that is not known. Kinds "begin" and "cut"
    mark where a recording begins late (at what), and ends early (by which limit).
    """

    kind: str
    name: str
    start: float
    stop: float
    bytes: int = 0
    group: str | None = None
    sequence: int = 0


_CUT = (
    "the trace was cut at its limit of {}, and what came later is not in it. With"
    " launch(..., trace=range(3, 5)) training steps 3 and 4 alone are recorded."
)
_start = attrgetter("start")


def merge_ranks(
    events_by_rank: Mapping[int | str, Iterable[Mark]], source: str
) -> Trace:
    """Return one trace of all ranks: zero at the earliest start, collectives split.

    A rank's collective is "wait" from its own entry until the last rank's entry, or
    its own stop if that comes first, and "communicate" (with the bytes) after that.
    A message likewise: it is under way from when both ends have entered until the first
    of them knows its end, as a rank that calls `wait()` late learns of it late.
    """
    by_rank = {rank: list(marks) for rank, marks in events_by_rank.items()}
    every = list(chain.from_iterable(by_rank.values()))
    # before the last begin and beyond the first cut the ranks cannot be compared
    begun = max((m for m in every if m.kind == "begin"), key=_start, default=None)
    cut = min((m for m in every if m.kind == "cut"), key=_start, default=None)
    begin, end = begun.start if begun else 0.0, cut.start if cut else math.inf
    for rank, marks in by_rank.items():
        by_rank[rank] = [m for m in marks if begin <= m.start < end and m.kind in KINDS]
    zero = min(map(_start, chain.from_iterable(by_rank.values())), default=begin)
    if begun:
        source = f"{source}, from {begun.name} on"
    if cut:
        source = f"{source}, cut after {end - zero:.1f} s ({cut.name})"
        warnings.warn(_CUT.format(cut.name), stacklevel=2)
    return Trace(tuple(_split(by_rank, zero)), source, zero=zero)


def _split(by_rank: Mapping[int | str, list[Mark]], zero: float) -> Iterator[Event]:
    calls = defaultdict(list)
    for mark in chain.from_iterable(by_rank.values()):
        calls[mark.group, mark.sequence].append(mark)
    for rank, marks in by_rank.items():
        for mark in marks:
            ends = calls[mark.group, mark.sequence] if mark.group else [mark]
            start, entry, stop = (t - zero for t in _times(mark, ends))
            if entry > start:
                yield Event(rank, "wait", mark.name, start, entry)
            yield Event(rank, mark.kind, mark.name, entry, stop, mark.bytes)


def _times(mark: Mark, ends: list[Mark]) -> tuple[float, float, float]:
    """When a rank entered a call of these marks, when all had, and when it ended."""
    last, first = max(end.start for end in ends), min(end.stop for end in ends)
    if mark.name not in MESSAGES:
        return mark.start, min(last, mark.stop), mark.stop
    if first < last:  # it went into a buffer, without waiting
        return mark.start, mark.start, mark.stop
    return mark.start, last, first
