"""Figures of the course: each takes plain data and returns the axes it drew on."""

import statistics

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from course_lib.colors import ROLE_COLORS, role, text_color
from course_lib.errors import UsageError
from course_lib.plots import captions, figure
from course_lib.plots.sharding import plot_sharding
from course_lib.text import many, rank_name, unit_of

__all__ = ["plot_digits", "plot_scaling", "plot_sharding", "plot_timeline"]

_LINE = ROLE_COLORS["backward"]
_THIN = 1.5  # points, so that an event of no length is seen


@figure.styled
def plot_timeline(trace, *, ax=None):
    """One row per rank: compute above, communicate and wait below, coloured by role.

    `trace` holds events in seconds; the axis starts at its first event.
    """
    if trace is None:
        raise UsageError("there is no trace to draw: launch with trace=True")
    if not trace.events:
        raise UsageError(
            "the trace holds no events: the ranks did nothing with tensors while it was"
            " recorded, or the window that was chosen is empty"
        )
    names = [rank_name(rank) for rank in trace.ranks]
    found = {role(event.kind, event.name) for event in trace.events}
    roles = _roles(found)
    extra = 1.7 if len(roles) > 5 else 1.5
    ax = figure.axes(ax, extra + len(names) * (0.56 if len(names) <= 8 else 0.32))
    figure.rows(ax, names)
    start, length = captions.period(trace)
    scale, unit = unit_of(length)
    ax.set_xlim(-0.005 * length * scale, 1.005 * length * scale)
    ax.set_xlabel(f"time ({unit})")
    figure.grid(ax, "x")
    figure.legend(ax, roles)
    title, alt = captions.timeline(trace)
    figure.finish(ax, title, source=trace.source, alt=alt, below=36)
    _bars(ax, trace, (start, scale))
    return ax


def _roles(found):
    """Entries of the legend for the roles that occur."""
    entries = [
        Patch(facecolor=color, edgecolor=_edge(color), label=label)
        for label, color in ROLE_COLORS.items()
        if label in found
    ]
    # five with the long name are wider than the figure: with an empty one they take
    # two lines
    if len(entries) == 5 and "other compute" in found:
        entries.append(Patch(alpha=0, label=" "))
    return entries


def _bars(ax, trace, time):
    """All events as one collection, waits below, the shortest on top, with names."""
    start, scale = time
    # of calls in flight together, the one that moves bytes is to be seen
    events = sorted(trace.events, key=lambda e: (e.kind != "wait", e.start - e.stop))
    halves = any(event.kind != "compute" for event in events)
    lane = 0.4 if halves else 0.8
    wide, high = figure.points(ax)
    row = {rank: i for i, rank in enumerate(trace.ranks)}
    top = np.array([row[event.rank] for event in events], float)
    top -= [0.4 if event.kind == "compute" else 0 for event in events]
    left = np.array([(event.start - start) * scale for event in events])
    width = np.array([(event.stop - event.start) * scale for event in events])
    width = _seen(width, _gaps(top, left, left + width), _THIN / wide)
    right, bottom = left + width, top + lane
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    colors = [ROLE_COLORS[role(event.kind, event.name)] for event in events]
    bars = PolyCollection(np.array(corners).transpose(2, 0, 1), facecolors=colors)
    # an edge parts neighbours of one colour, but would wipe out a thin bar
    edges = [_edge(color) for color in colors]
    bars.set(edgecolors=edges, linewidths=np.where(width * wide > 5, 0.8, 0))
    ax.add_collection(bars, autolim=False)
    if lane * high < 12:
        return
    alone = ~_overlapped(top, left, right)
    for i in np.flatnonzero(alone & (width * wide > 8)):
        text = _fitting(events[i].name, width[i] * wide)
        if text:
            middle = left[i] + width[i] / 2, top[i] + lane / 2
            _label(ax, middle, text, color=text_color(colors[i]))


def _fitting(name, room):
    """The name if `room` points hold it, else its number alone, else nothing."""
    number = name.rpartition(" ")[2]
    if figure.text_width(name) + 4 <= room:
        return name
    # numbers may stand close, and all of as many digits fit or none does
    least = max(8.5, figure.text_width("0" * len(number)) + 1)
    return number if number.isdecimal() and least <= room else ""


def _edge(color):
    """The edge of a bar: white, but dark round the yellow that white would swallow."""
    return "#6b6300" if color == ROLE_COLORS["wait"] else "white"


def _overlapped(lane, left, right):
    """Which bars share a moment with another bar of their lane."""
    found = np.zeros(left.shape, bool)
    longest = {}
    for i in np.lexsort((left, lane)):
        last = longest.get(lane[i])
        # bars that only touch are apart: rounding leaves them 1e-12 together
        if last is not None and left[i] < right[last] - 1e-9 * abs(right[last]):
            found[[i, last]] = True
        if last is None or right[i] > right[last]:
            longest[lane[i]] = i
    return found


def _gaps(lane, left, right):
    """Free time after each event until the next one in its lane starts."""
    order = np.lexsort((left, lane))
    gaps = np.full(left.shape, np.inf)
    same = np.diff(lane[order]) == 0
    gaps[order[:-1][same]] = (left[order][1:] - right[order][:-1])[same]
    return np.maximum(gaps, 0)


def _seen(width, gaps, least):
    """Widths of at least `least`; a crowd fills only a third of its gaps."""
    return np.maximum(width, np.minimum(least, width + gaps / 3))


def _label(ax, middle, text, **style):
    """`text` centred on a point of the data."""
    ax.text(*middle, text, ha="center", va="center_baseline", clip_on=True, **style)


@figure.styled
def plot_scaling(times, *, source="measured", noun="rank", ax=None):
    """Speed-up and efficiency of `{world_size: seconds per step, or a list of them}`.

    Lists give the median and a band from slowest to fastest. One rank must be among
    the sizes. `source` says what was measured: "measured: gloo, CPU, two cores"; `noun`
    what there are so many of: "rank" or "device".
    """
    runs = _runs(times)
    sizes = sorted(runs)
    one, *_ = medians = [statistics.median(runs[size]) for size in sizes]
    speed = [one / median for median in medians]
    ax = figure.axes(ax, 3.9)
    handles = ax.plot(sizes, sizes, "--", color="#666666", lw=2, label="ideal")
    handles += ax.plot(sizes, speed, "o-", color=_LINE, lw=3, ms=9, label="median")
    if any(len(seconds) > 1 for seconds in runs.values()):
        low, high = ([one / most(runs[n]) for n in sizes] for most in (max, min))
        band = {"color": _LINE, "alpha": 0.25, "linewidth": 0}
        label = "slowest to fastest run"
        handles.append(ax.fill_between(sizes, low, high, label=label, **band))
    else:
        handles[1].set_label("one run each")
    _scaling_axes(ax, sizes)
    if noun != "rank":
        ax.set_xlabel(f"{noun}s")
    figure.legend(ax, handles)
    shares = [
        f"{rate / size:.0%}".replace("%", " %")
        for size, rate in zip(sizes, speed, strict=True)
    ]
    for size, rate, share in zip(sizes[1:], speed[1:], shares[1:], strict=True):
        below = {"xytext": (3, -7), "textcoords": "offset points", "va": "top"}
        ax.annotate(share, (size, rate), ha="left", fontsize=11, **below)
    title = f"{sizes[-1]} {noun}s are {speed[-1]:.2g} times as fast as one"
    title += f" ({shares[-1]} of ideal)"
    rates = zip(sizes, speed, shares, strict=True)
    alt = ", ".join(
        f"{n} {noun}s: {rate:.2g} times, {share}" for n, rate, share in rates
    )
    return figure.finish(ax, title, source=source, alt=alt, below=36)


def _scaling_axes(ax, sizes):
    """Both axes by powers of two once the sizes reach beyond 8."""
    ax.set(xlabel="world size (ranks)", ylabel="speed-up (times)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#dddddd", linewidth=0.8)
    if sizes[-1] > 8:
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        ax.set_yticks(sizes, sizes)
    else:
        ax.set_ylim(bottom=0)
    ax.set_xticks(sizes, sizes)


def _runs(times):
    """The times as lists, after a check."""
    runs = {n: [t] if np.isscalar(t) else list(t) for n, t in times.items()}
    if 1 not in runs or len(runs) < 2:
        raise UsageError(
            f"cannot draw the speed-up: found times for {sorted(runs)} ranks, expected "
            "1 and at least one more. Measure one rank too."
        )
    for size, seconds in runs.items():
        if size < 1 or not seconds or not min(seconds) > 0:
            raise UsageError(
                f"cannot draw the speed-up of {size} ranks: found {seconds}, expected "
                "seconds per step above 0."
            )
    return runs


@figure.styled
def plot_digits(images, labels, *, ax=None):
    """A strip of digits f32[n, 1, 8, 8] with their labels i64[n], ten to a row."""
    images = np.asarray(images).reshape(len(images), *np.shape(images)[-2:])
    if len(images) != len(labels) or not 0 < len(images) <= 100:
        raise UsageError(
            f"cannot draw {len(images)} images with {len(labels)} labels: expected as "
            "many labels as images, 1 to 100. Draw images[:10], labels[:10]."
        )
    columns = min(10, len(images))
    lines = -(-len(images) // columns)
    ax = figure.axes(ax, 0.75 + 0.85 * lines)
    ax.set(xlim=(0, 10), ylim=(1.35 * lines, 0), aspect="equal")
    ax.axis("off")
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        x, y = i % columns, i // columns * 1.35
        place = (x + 0.05, x + 0.95, y + 1.3, y + 0.4)
        ax.imshow(image, cmap="gray_r", vmin=0, vmax=1, extent=place, aspect="equal")
        ax.text(
            x + 0.5, y + 0.2, str(int(label)), ha="center", va="center", fontsize=13
        )
    rows, width = images.shape[1:]
    digits = many(len(images), "digit")
    title = f"{digits} of {rows} × {width} pixels, each with its label"
    source = "data: grey from 0 (white) to 1 (black)"
    return figure.finish(ax, title, source=source, below=4)
