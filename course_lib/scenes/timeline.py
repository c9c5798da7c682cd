"""The timeline of a trace, to point at, to zoom into, to step through in time."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from course_lib.colors import ROLE_COLORS
from course_lib.errors import UsageError
from course_lib.plots.timeline import captions, require_events
from course_lib.scenes.items import TIMED, Axis, Item, Moment, cut, label
from course_lib.scenes.scene import LARGEST, WIDTH, Scene, unlimited
from course_lib.scenes.svg import class_name
from course_lib.scenes.timeline_bars import MOST, bars_of
from course_lib.text import duration, listed, many, rank_name, rank_noun, size, unit_of
from course_lib.tracing.events import Event, Trace

_LEFT, _LANE = 84, 15
_NAME = 260  # units of a name in a sentence
_ROWS, _RUNS = 48, 12
_STOPS = 32
_DOES = {"communicate": "communicates", "wait": "waits"}


def timeline(trace: Trace | Mapping[str, Trace]) -> Scene:
    """Play a trace as in `cl.plot_timeline`; or several, one above the other.

    `trace` holds events in seconds; each run of a dict such as `{"by hand": run.trace,
    "DDP": other.trace}` starts at its own first event. Where there are more events than
    a figure can hold, short neighbours of one kind stand as one, and a note says so.

    Errors: `UsageError` where there is no event, or one without a time (nan).
    """
    runs = trace if isinstance(trace, Mapping) else {"": trace}
    if not 0 < len(runs) <= _RUNS:
        raise UsageError(
            "there is no trace to draw: give one, or a dict of them"
            if not runs
            else f"cannot show {len(runs)} runs: the figure has room for {_RUNS}"
        )
    runs = {str(name): _shifted(run, name) for name, run in runs.items()}
    for most in (MOST, MOST // 3, MOST // 9):  # names may take much of the size
        scene = _scene(runs, most)
        if len(unlimited(scene)) <= LARGEST:
            return scene
    return _scene(runs, most, still=True)


def _scene(runs, most, *, still=False):
    """With so many bars, if possible; `still` has only what all of them come to."""
    bars, rows = bars_of(runs, most), _rows(runs)
    span = max(run.span for run in runs.values()) or 1e-6
    scale, unit = unit_of(span)
    axis = _axis(rows, span * scale, unit)
    items = [*_legend(bars), *_names(rows, unit), *_items(bars, rows, scale)]
    moments = [
        Moment(
            f"{start * scale:.3g} {unit}: {_doing(bars, runs, (start, stop))}.",
            (*items, *_cover(start * scale, axis)),
        )
        for start, stop in ([] if still else _parts(bars, span))
    ]
    title, alt = _captions(runs)
    return Scene(
        [*moments, Moment(title, tuple(items))],
        height=axis.bottom + 24,
        axis=axis,
        alt=alt,
        source=_source(runs, bars, rows),
        seconds=0.5,
    )


def _shifted(run, name):
    """Return the events of a run, the first of them at 0."""
    named = f"{name}: " if name else ""
    if run is not None and not isinstance(run, Trace):
        found, hint = type(run).__name__, ""
        if isinstance(getattr(run, "trace", None), Trace):
            hint = ": give its `.trace`"
        raise UsageError(f"{named}expected a trace, found {found}{hint}")
    run = require_events(run, named)
    for event in run:
        if not (math.isfinite(event.start) and math.isfinite(event.stop)):
            who, when = rank_name(event.rank), f"{event.start} to {event.stop}"
            raise UsageError(f"{named}{event.name} of {who} has no time: {when}")
    zero = run.events[0].start
    return Trace(tuple(_earlier(event, zero) for event in run), run.source)


def _earlier(event, zero):
    start, stop = event.start - zero, max(event.start, event.stop) - zero
    return Event(event.rank, event.kind, event.name, start, stop, event.bytes)


# --- rows


class _Row(NamedTuple):
    """The place of a rank of a run; or of the run's name, then `rank` is None."""

    run: str
    rank: int | str | None
    y: float
    high: float


def _rows(runs):
    rows, y = [], 28
    high = 2 * _LANE + 2
    for name, run in runs.items():
        if name:
            rows.append(_Row(name, None, y, 18))
            y += 18
        for rank in run.ranks[: _ROWS // len(runs)]:
            rows.append(_Row(name, rank, y, high))
            y += high + 6
    return rows


def _axis(rows, length, unit):
    """From just before the first event to just after the last, so that edges show."""
    return Axis(
        left=_LEFT,
        width=WIDTH - _LEFT - 10,
        top=24,
        bottom=rows[-1].y + rows[-1].high + 4,
        start=-0.005 * length,
        length=1.01 * length,
        unit=unit,
    )


def _names(rows, unit):
    for number, (run, rank, y, high) in enumerate(rows):
        text, role = cut(run, WIDTH), "label strong"
        if rank is not None:
            text, role = cut(rank_name(rank), _LEFT - 4), "label"
        yield label(f"row {number}", (0, y + high / 2), text, role=role)
    bottom = rows[-1].y + rows[-1].high
    yield label("unit", (0, bottom + 16), f"time ({unit})", role="label soft")


def _legend(bars):
    """Yield a swatch and a name for each role that occurs."""
    roles = {bar.role for row in bars.values() for bar in row}
    x = float(_LEFT)
    for name in ROLE_COLORS:
        if name in roles:
            yield Item(f"swatch {name}", x, 5, 11, 11, class_name(name))
            yield label(f"legend {name}", (x + 16, 11), name)
            x += 16 + 7.2 * len(name) + 14  # some fonts are wide


def _items(bars, rows, scale):
    places = {(row.run, row.rank): row.y for row in rows}
    items = []
    for place, (run, row) in enumerate(bars.items()):
        for number, bar in enumerate(row):
            if (run, bar.rank) in places:
                y, name = places[run, bar.rank], f"{place} {number}"
                item = _item(bar, name, y=y, scale=scale)
                covered = any(_covers(top, bar) for top in row[number + 1 :])
                items.append(item._replace(text="") if covered else item)
    return items


def _covers(top, bar):
    """Whether half a name would be seen of the bar below."""
    shared = min(top.stop, bar.stop) - max(top.start, bar.start)
    one_lane = top.rank == bar.rank and _lower(top) == _lower(bar)
    return one_lane and shared > (bar.stop - bar.start) / 20


def _item(bar, name, *, y, scale):
    called, load = bar.name[:40], f", {size(bar.bytes)}" if bar.bytes else ""
    what = called if bar.events == 1 else f"{bar.events:,} calls such as {called}"
    what = f"waits in {what}" if bar.role == "wait" else what
    role = f"event {TIMED} {class_name(bar.role)}"
    place = bar.start * scale, y + _lower(bar) * (_LANE + 2)
    texts = called if bar.events == 1 else "", f"{_rank(bar.rank)}: {what}{load}"
    return Item(name, *place, (bar.stop - bar.start) * scale, _LANE, role, *texts)


def _rank(rank):
    return cut(rank_name(rank), _NAME)


def _lower(bar):
    """Whether it stands in the lower half of a row."""
    return bar.role in _DOES


# --- time


def _parts(bars, length) -> list[tuple[float, float]]:
    """Cut the time where something begins or ends, in parts that are not too short."""
    each = (bar for row in bars.values() for bar in row)
    cuts = [0.0]
    for time in sorted({time for bar in each for time in (bar.start, bar.stop)}):
        if min(time - cuts[-1], length - time) >= length / _STOPS:
            cuts.append(time)
    return list(zip(cuts, [*cuts[1:], length]))


def _cover(time, axis) -> Iterator[Item]:
    """Yield a veil over what comes after `time`, and a line."""
    high, left = axis.bottom - axis.top, axis.start + axis.length - time
    yield Item("veil", time, axis.top, left, high, f"veil {TIMED}")
    yield Item("now", time, axis.top, 0, high, f"now line {TIMED}")


def _doing(bars, runs, part):
    """Say what the ranks of each run do in a part of the time."""
    texts = []
    for name, run in runs.items():
        verbs = {rank: _verb(bars[name], rank, part) for rank in run.ranks}
        text = _told(verbs) if part[0] < run.span else "has ended"
        texts.append(f"{cut(name, _NAME)}: {text}" if name else text)
    return "; ".join(texts)


def _told(verbs):
    """One by one, or where all or many do the same, how many."""
    noun, counts = rank_noun(next(iter(verbs))), Counter(verbs.values()).most_common()
    if len(verbs) > 1 == len(counts):
        return f"each {noun} {counts[0][0]}"
    if len(verbs) <= 4:
        return ", ".join(f"{_rank(rank)} {verb}" for rank, verb in verbs.items())
    return ", ".join(f"{many(count, noun)}: {verb}" for verb, count in counts)


def _verb(bars, rank, part):
    """Say what takes a third of a part or more: to look at one time would meet gaps."""
    start, stop = part
    shares = Counter()
    for bar in bars:
        if bar.rank == rank:
            shares[bar.role] += max(0, min(stop, bar.stop) - max(start, bar.start))
    roles = {role for role, share in shares.items() if 3 * share >= stop - start}
    verbs = [_DOES[role] for role in _DOES if role in roles]
    work = [role for role in ROLE_COLORS if role in roles and role not in _DOES]
    if work:
        what = "" if work[0] == "other compute" else f" {work[0]}"
        verbs.insert(0, f"computes{what}")
    nothing = "is idle" if isinstance(rank, str) else "does nothing with tensors"
    return listed(verbs) if verbs else nothing


# --- words


def _captions(runs):
    """Title and alt text: of one run as in the still figure, of several their times."""
    if len(runs) == 1:
        title, alt = captions(*runs.values())
        return title.replace("\n", ". "), alt
    times = (f"{cut(name, _NAME)} {duration(run.span)}" for name, run in runs.items())
    return ", ".join(times), ""


def _source(runs, bars, rows):
    """Where the times come from, and what was left out of the figure."""
    notes = dict.fromkeys(run.source for run in runs.values())
    events, shown = (sum(map(len, them.values())) for them in (runs, bars))
    if shown < events:
        notes[f"{events:,} events as {shown:,}: short neighbours stand as one"] = None
    ranks = sum(len(run.ranks) for run in runs.values())
    drawn = sum(row.rank is not None for row in rows)
    if drawn < ranks:
        notes[f"{drawn} of {ranks} rows are drawn"] = None
    return "; ".join(filter(None, notes))
