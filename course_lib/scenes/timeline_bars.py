"""The bars of a timeline: events, and where these are too many, short ones joined."""

from typing import NamedTuple

from course_lib.colors import role
from course_lib.tracing.events import Trace

MOST = 340  # with what is read when pointing at them, some 40 kB


class Bar(NamedTuple):
    """One event, or `events` neighbours that are too short to be seen apart.

    Times in seconds; `name` is that of the first.
    """

    rank: int | str
    role: str
    start: float
    stop: float
    name: str
    bytes: int
    events: int = 1


def bars_of(runs: dict[str, Trace], most: int = MOST) -> dict[str, list[Bar]]:
    """Return the bars of each run, `most` in all if possible, as they are drawn."""
    bars = {name: list(map(_bar, run)) for name, run in runs.items()}
    span = max(run.span for run in runs.values())
    apart = span / 4000
    while sum(map(len, bars.values())) > most and apart < 2 * span:
        bars = {name: _joined(bars[name], apart) for name in bars}
        apart *= 1.5
    # as in the still figure: waits lie below, the shortest on top
    return {
        name: sorted(row, key=lambda b: (b.role != "wait", b.start - b.stop))
        for name, row in bars.items()
    }


def _bar(event):
    kind = role(event.kind, event.name)
    times = event.start, event.stop
    return Bar(event.rank, kind, *times, event.name, event.bytes)


def _joined(bars, apart):
    """Bars of a rank and role, shorter than `apart` and as near, as one."""
    joined, last = [], {}
    for bar in sorted(bars, key=lambda bar: bar.start):
        key = bar.rank, bar.role
        short = bar.stop - bar.start < apart
        before = last.get(key)
        if short and before is not None and bar.start - joined[before].stop < apart:
            joined[before] = _both(joined[before], bar)
        else:
            last[key] = len(joined) if short else None
            joined.append(bar)
    return joined


def _both(one, other):
    return one._replace(
        stop=max(one.stop, other.stop),
        bytes=one.bytes + other.bytes,
        events=one.events + other.events,
    )
