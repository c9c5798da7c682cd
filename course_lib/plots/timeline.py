"""The figure of a timeline: what each rank does at each moment."""

from typing import NamedTuple

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from course_lib.colors import ROLE_COLORS, edge, role, text_color
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.text import duration, extent, many, rank_name, rank_noun, unit_of
from course_lib.tracing.events import KINDS, Trace

_THIN = 1.5  # points, so that an event of no length is seen


@figure.styled
def plot_timeline(trace, *, ax=None):
    """Draw a row per rank: compute above, communicate and wait below.

    `trace` holds events in seconds; the axis starts at its first event.
    """
    require_events(trace)
    names = [rank_name(rank) for rank in trace.ranks]
    roles = _roles({role(event.kind, event.name) for event in trace.events})
    extra = 1.7 if len(roles) > 5 else 1.5
    ax = figure.axes(ax, extra + len(names) * (0.56 if len(names) <= 8 else 0.32))
    figure.rows(ax, names)
    length = _length(trace)
    scale, unit = unit_of(length)
    ax.set_xlim(-0.005 * length * scale, 1.005 * length * scale)
    ax.set_xlabel(f"time ({unit})")
    figure.grid(ax, "x")
    figure.legend(ax, roles)
    title, alt = captions(trace)
    figure.finish(ax, title, source=trace.source, alt=alt, below=36)
    _bars(ax, trace, scale)
    return ax


def require_events(trace: Trace | None, named="") -> Trace:
    """Return a trace, or raise where it is empty; `named` stands before the reason."""
    if trace is None:
        raise UsageError(f"{named}there is no trace to draw: launch with trace=True")
    if not trace.events:
        raise UsageError(
            f"{named}the trace holds no events: the ranks did nothing with tensors"
            " while it was recorded, or the window that was chosen is empty"
        )
    return trace


def _length(trace):
    """Seconds of the whole trace, never 0."""
    return trace.span or 1e-6


# --- bars


def _roles(names):
    """Entries of the legend for the roles that occur."""
    roles = [role for role in ROLE_COLORS if role in names]
    entries = figure.patches(ROLE_COLORS, roles)
    # five with the long name are wider than the figure: with an empty one they take
    # two lines
    if len(entries) == 5 and "other compute" in names:
        entries.append(Patch(alpha=0, label=" "))
    return entries


def _bars(ax, trace, scale):
    """All events as one collection, waits below, the shortest on top, with names."""
    # of calls in flight together, the one that moves bytes is to be seen
    events = sorted(trace.events, key=lambda e: (e.kind != "wait", e.start - e.stop))
    halves = any(event.kind != "compute" for event in events)
    lane = 0.4 if halves else 0.8
    wide, high = figure.points(ax)
    row = {rank: i for i, rank in enumerate(trace.ranks)}
    top = np.array([row[event.rank] for event in events], float)
    top -= [0.4 if event.kind == "compute" else 0 for event in events]
    start = trace.events[0].start
    left = np.array([(event.start - start) * scale for event in events])
    width = np.array([(event.stop - event.start) * scale for event in events])
    width = _widened(width, _gaps(top, left, left + width), _THIN / wide)
    right, bottom = left + width, top + lane
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    colors = [ROLE_COLORS[role(event.kind, event.name)] for event in events]
    bars = PolyCollection(list(np.array(corners).transpose(2, 0, 1)), facecolors=colors)
    # an edge parts neighbours of one colour, but would wipe out a thin bar
    thickness = 0.8 * np.clip((width * wide - _THIN) / 8, 0, 1)
    bars.set(edgecolors=[edge(color) for color in colors], linewidths=thickness)
    ax.add_collection(bars, autolim=False)
    if lane * high < 12:
        return
    alone = ~_overlapped(top, left, right)
    style = figure.CENTRED | {"clip_on": True}
    for i in np.flatnonzero(alone & (width * wide > 8)):
        text = _fitting(events[i].name, width[i] * wide)
        middle = left[i] + width[i] / 2, top[i] + lane / 2
        if text:
            ax.text(*middle, text, color=text_color(colors[i]), **style)


def _fitting(name, room):
    """Return the name if `room` points hold it, else its number alone, else nothing."""
    number = name.rpartition(" ")[2]
    if figure.text_width(name) + 4 <= room:
        return name
    # numbers may stand close, and all of as many digits fit or none does
    least = max(8.5, figure.text_width("0" * len(number)) + 1)
    return number if number.isdecimal() and least <= room else ""


def _overlapped(lane, left, right):
    """Which bars share a moment with another bar of their lane."""
    shared = np.zeros(left.shape, bool)
    longest = {}
    for i in np.lexsort((left, lane)):
        last = longest.get(lane[i])
        # bars that only touch are apart: rounding leaves them 1e-12 together
        if last is not None and left[i] < right[last] - 1e-9 * abs(right[last]):
            shared[[i, last]] = True
        if last is None or right[i] > right[last]:
            longest[lane[i]] = i
    return shared


def _gaps(lane, left, right):
    """Free time after each event until the next one in its lane starts."""
    order = np.lexsort((left, lane))
    gaps = np.full(left.shape, np.inf)
    same = np.diff(lane[order]) == 0
    gaps[order[:-1][same]] = (left[order][1:] - right[order][:-1])[same]
    return np.maximum(gaps, 0)


def _widened(width, gaps, least):
    """Widths of at least `least`; a crowd fills only a third of its gaps."""
    return np.maximum(width, np.minimum(least, width + gaps / 3))


# --- words


class _Shares(NamedTuple):
    """Percent of the whole time that a rank spends, each moment counted once."""

    compute: float
    communicate: float
    wait: float
    traffic: float  # to communicate, and to wait in collectives
    hidden: float  # of that, under compute
    idle: float  # waiting without compute


def _shares(trace, rank):
    events = trace.select(rank=rank)  # fewer to go through, five times
    times = [events.time(rank, kind) for kind in KINDS]
    idle = events.time(rank, "compute", "wait") - times[0]
    traffic = Trace(tuple(e for e in events if e.is_traffic), trace.source)
    sent = traffic.time(rank, "communicate") + traffic.time(rank, "wait")
    percent = 100 / _length(trace)
    times += [sent, events.overlap(rank), idle]
    return _Shares(*(percent * time for time in times))


def captions(trace: Trace) -> tuple[str, str]:
    """Return title and alt text: who computes how much, what is hidden, who waits."""
    shares = {rank_name(rank): _shares(trace, rank) for rank in trace.ranks}
    alone = isinstance(trace.ranks[0], str)  # a device has one queue for both
    facts = []
    sent = sum(share.traffic for share in shares.values())
    if sent >= 1 and not alone:
        hidden = 100 * sum(share.hidden for share in shares.values()) / sent
        facts.append(f"{hidden:.0f} % of communication is hidden by compute")
    name, longest = max(shares.items(), key=lambda item: item[1].idle)
    if longest.idle >= 1:
        facts.append(f"{name} waits {longest.idle:.0f} %")
    lines = [_computing(trace, shares), ", ".join(facts)]
    alt = (f"{name}: {_times(share, alone)}" for name, share in shares.items())
    return "\n".join(filter(None, lines)), "; ".join(alt)


def _times(share, alone):
    """Return what a rank does with its time; a device that does nothing is idle."""
    compute, communicate, wait, *_ = share
    last = f"wait {wait:.0f} %"
    if alone:
        last = f"idle {max(0, 100 - compute - communicate):.0f} %"
    return f"compute {compute:.0f} %, communicate {communicate:.0f} %, {last}"


def _computing(trace, shares):
    """Return the first line of the title: how long it took, who computes how much."""
    noun = rank_noun(trace.ranks[0])
    percent = {name: round(share.compute) for name, share in shares.items()}
    head = f"{many(len(percent), noun)}, {duration(_length(trace))}"
    if len(percent) > 2 or len(percent) == 2 and len(set(percent.values())) == 1:
        each = extent(percent.values(), " %")
        if each == "0 %" and all(share.compute for share in shares.values()):
            each = "less than 1 %"
        text = f"{head}: each computes {each} of the time"
        if noun != "stage":
            return text
        idle = 100 - sum(share.compute for share in shares.values()) / len(shares)
        return f"{text}, the bubble is {idle:.0f} %"
    (first, share), *rest = percent.items()
    text = f"{head}: {first} computes {share} % of the time"
    return text + "".join(f", {name} {share} %" for name, share in rest)
