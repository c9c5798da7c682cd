"""The figure of memory over time: how full each device is at each moment."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from course_lib.accelerators.memory import KINDS
from course_lib.colors import DARK, MEMORY_COLORS
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.plots.memory import in_words, kind_handles, largest_kind, size_range
from course_lib.text import byte_unit, rank_order, size, unit_of


@figure.styled
def plot_memory_over_time(trace, *, ax=None):
    """One panel per device: bytes by kind, stacked, at each moment of a trace.

    Returns the axes, an array of them for several devices.
    """
    if trace is None or not trace.memory:
        raise UsageError(
            "cannot draw memory over time: the trace holds no change of memory. Record "
            "a step on devices of devices(n), inside `with cl.trace() as trace:`."
        )
    start, stop, levels = _levels(trace)
    panels = _panels(ax, levels)
    scale, unit = unit_of(stop - start)
    peaks = {device: _peak(*levels[device], start) for device in levels}
    highest = max(peak for peak, *_ in peaks.values()) or 1
    unit_bytes, name = byte_unit(highest)
    factor = 1 / unit_bytes
    for panel, device in zip(panels, levels, strict=True):
        times, held = levels[device]
        _area(panel, (times - start) * scale, held * factor)
        _mark(panel, device, peaks[device], units=(scale, factor))
        panel.set(xlim=(0, (stop - start) * scale), ylim=(0, 1.1 * highest * factor))
    panels[-1].set_xlabel(f"time ({unit})")
    if len(panels) > 1:
        panels[0].figure.supylabel(f"memory ({name})", fontsize=11)
    else:
        panels[0].set_ylabel(f"memory ({name})")
    every = np.concatenate([held for _, held in levels.values()], axis=1)
    figure.legend(panels[0], kind_handles(every))
    _finish(panels, _captions(peaks), figure.bytes_source(trace))
    return panels if len(panels) > 1 else panels[0]


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
        levels[device] = np.array(times), steps.cumsum(1)
    return start, max(stop, start + 1e-6), levels


def _peak(times, held, start):
    """Most bytes at once, when they were reached, and what they were."""
    total = held.sum(0)
    i = int(total.argmax())
    kinds = dict(zip(KINDS, held[:, i].astype(int).tolist(), strict=True))
    return int(total[i]), float(times[i] - start), kinds


def _panels(ax, levels):
    """One panel per device, with one scale of time and of bytes."""
    if len(levels) == 1:
        return np.array([figure.axes(ax, 2.9)])
    if ax is not None:
        raise UsageError(
            f"cannot draw the memory of {len(levels)} devices on one axes: each needs "
            "a panel of its own. Leave out `ax`."
        )
    height = 1.4 + len(levels) * (1.0 if len(levels) <= 4 else 0.7)
    size, shared = (figure.WIDTH, height), {"sharex": True, "sharey": True}
    return plt.subplots(len(levels), figsize=size, layout="constrained", **shared)[1]


def _area(ax, times, held):
    """The kinds on top of each other, each level kept until the next change."""
    top = np.vstack([np.zeros(len(times)), held.cumsum(0)])
    for i, kind in enumerate(KINDS):
        if held[i].any():
            style = {"color": MEMORY_COLORS[kind], "linewidth": 0, "label": kind}
            ax.fill_between(times, top[i], top[i + 1], step="post", **style)
    ax.step(times, top[-1], where="post", color=DARK, lw=0.8, label="in all")


def _mark(ax, device, peak, *, units):
    """The name of the device and its peak, at the right of its panel."""
    count, seconds, _ = peak
    ax.yaxis.set_major_locator(MaxNLocator(3))
    figure.grid(ax)
    text = f"{device}\npeak {size(count)}" if count else f"{device}\nempty"
    ax.text(1.01, 0.5, text, transform=ax.transAxes, va="center", fontsize=11)
    if count:
        place = seconds * units[0], count * units[1]
        ax.plot(*place, "o", color=DARK, ms=5, clip_on=False, label="peak")


def _finish(panels, words, source):
    """The title over the first panel, the source under the last."""
    title, alt = words
    if len(panels) == 1:
        figure.finish(panels[0], title, source=source, alt=alt, below=36)
        return
    figure.finish(panels[0], title, alt=alt)
    figure.finish(panels[-1], "", source=source, below=36)


# --- words


def _captions(peaks):
    """Title and alt text of `{device: (bytes, seconds, held by kind)}`."""
    most = max(peaks, key=lambda device: peaks[device][0])
    peak, seconds, held = peaks[most]
    alt = "Peaks: " + "; ".join(
        f"{device} {size(count)} {_when(seconds)}: {in_words(held)}"
        for device, (count, seconds, held) in peaks.items()
    )
    if not peak:
        return "No device holds anything", alt
    kind, share = largest_kind(held)
    title = f"{most} peaks at {size(peak)} {_when(seconds)}, {share} of it {kind}"
    rest = {device: peaks[device][0] for device in peaks if device != most}
    if len(rest) == 1:
        title += "".join(f"\n{d} peaks at {size(count)}" for d, count in rest.items())
    elif rest:
        title += f"\nthe other {len(rest)} peak at {size_range(rest.values())}"
    return title, alt


def _when(seconds):
    if seconds <= 0:
        return "at the start"
    scale, unit = unit_of(seconds)
    return f"after {seconds * scale:.3g} {unit}"
