"""The figure of memory over time: how full each device is at each moment."""

import numpy as np
from matplotlib.ticker import MaxNLocator

from course_lib.accelerators.memory import KINDS
from course_lib.colors import DARK, MEMORY_COLORS
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.plots.memory import in_words, kind_handles, largest_kind
from course_lib.text import byte_unit, duration, rank_order, size, unit_of


@figure.styled
def plot_memory_over_time(trace, *, ax=None):
    """Draw the fullest device: bytes by kind at each moment of a trace.

    The title and the alt text tell the peaks of the others.
    """
    if trace is None or not trace.memory:
        raise UsageError(
            "cannot draw memory over time: the trace holds no change of memory. Record "
            "a step on devices of devices(n), inside `with cl.trace() as trace:`."
        )
    start, stop, levels = _levels(trace)
    peaks = {d: _peak(times, held, start) for d, (times, held) in levels.items()}
    fullest = max(peaks, key=lambda device: peaks[device][0])
    times, held = levels[fullest]
    highest = peaks[fullest][0] or 1
    unit_bytes, name = byte_unit(highest)
    factor = 1 / unit_bytes
    scale, unit = unit_of(stop - start)
    ax = figure.axes(ax, 2.9)
    _area(ax, (times - start) * scale, held * factor)
    _mark(ax, fullest, peaks[fullest], units=(scale, factor))
    ax.set(xlim=(0, (stop - start) * scale), ylim=(0, 1.1 * highest * factor))
    ax.set(xlabel=f"time ({unit})", ylabel=f"memory ({name})")
    figure.legend(ax, kind_handles(held))
    title, alt = _captions(fullest, peaks)
    source = figure.bytes_source(trace)
    return figure.finish(ax, title, source=source, alt=alt, below=36)


def _levels(trace):
    """Start and stop in seconds, and per device the times and bytes[kind, time]."""
    changes = trace.memory
    start = min([changes[0].time, *(event.start for event in trace.events)])
    stop = max([changes[-1].time, *(event.stop for event in trace.events)])
    by_device = {rank: [] for rank in trace.ranks if isinstance(rank, str)}
    for change in changes:
        by_device.setdefault(change.device, []).append(change)
    levels = {}
    for device in sorted(by_device, key=rank_order):
        steps = np.zeros((len(KINDS), len(by_device[device]) + 2))
        for i, change in enumerate(by_device[device], 1):
            steps[KINDS.index(change.kind), i] = change.bytes
        times = [start, *(change.time for change in by_device[device]), stop]
        levels[device] = _without_dips(np.array(times), steps.cumsum(1))
    return start, max(stop, start + 1e-6), levels


def _without_dips(times, held):
    """Without the levels that lasted no time before a higher one: freed, then taken."""
    dips = (np.diff(times, append=np.inf) == 0) & (np.diff(held.sum(0), append=0) > 0)
    return times[~dips], held[:, ~dips]


def _peak(times, held, start):
    """Most bytes at once, when they were reached, and what they were."""
    total = held.sum(0)
    i = int(total.argmax())
    kinds = dict(zip(KINDS, held[:, i].astype(int).tolist(), strict=True))
    return int(total[i]), float(times[i] - start), kinds


def _area(ax, times, held):
    """Draw the kinds on top of each other, each level kept until the next change."""
    top = np.vstack([np.zeros(len(times)), held.cumsum(0)])
    for i, kind in enumerate(KINDS):
        if held[i].any():
            style = {"color": MEMORY_COLORS[kind], "linewidth": 0, "label": kind}
            ax.fill_between(times, top[i], top[i + 1], step="post", **style)
    ax.step(times, top[-1], where="post", color=DARK, lw=0.8, label="in all")


def _mark(ax, device, peak, *, units):
    """Write the name of the device and its peak, at the right of the axes."""
    count, seconds, _ = peak
    ax.yaxis.set_major_locator(MaxNLocator(3))
    figure.grid(ax)
    text = f"{device}\npeak {size(count)}" if count else f"{device}\nempty"
    ax.text(1.01, 0.5, text, transform=ax.transAxes, va="center", fontsize=11)
    if count:
        place = seconds * units[0], count * units[1]
        ax.plot(*place, "o", color=DARK, ms=5, clip_on=False, label="peak")


# --- words


def _captions(fullest, peaks):
    """Title and alt text of `{device: (bytes, seconds, held by kind)}`."""
    peak, seconds, held = peaks[fullest]
    alt = "Peaks: " + "; ".join(
        f"{device} {size(count)} {_when(seconds)}: {in_words(held)}"
        for device, (count, seconds, held) in peaks.items()
    )
    if not peak:
        return "No device holds anything", alt
    kind, share = largest_kind(held)
    title = f"{fullest} peaks at {size(peak)} {_when(seconds)}, {share} of it {kind}"
    if len(peaks) > 1:
        low = size(min(count for count, *_ in peaks.values()))
        title += f"\nthe fullest of {len(peaks)} devices, the least peaks at {low}"
    return title, alt


def _when(seconds):
    if seconds <= 0:
        return "at the start"
    return f"after {duration(seconds)}"
