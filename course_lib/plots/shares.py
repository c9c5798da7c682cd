"""Figures of processes that share memory: who holds what, who overtakes whom."""

import statistics

import numpy as np
from matplotlib.patches import Patch, Rectangle

from course_lib.colors import DARK, rank_color, text_color
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.text import listed, many

_GREY = "#e0e0e0"  # memory that belongs to no process alone
_CELL = 0.4  # in, one number of a tensor
_ROW = 0.8  # in, one process
_LABEL = 0.75  # in, its name
_CENTRED = {"ha": "center", "va": "center_baseline"}
_BINS = (0, 1, 2, 3, 4, 8, 16, 32, 64)


@figure.styled
def plot_processes(held, *, shared=("shared",), ax=None):
    """What each process finds in its tensors: `{process: {tensor: numbers}}`.

    A tensor named in `shared` is one piece of memory, drawn once for all processes.
    """
    names = list(next(iter(held.values()), ()))
    if not names or any(list(tensors) != names for tensors in held.values()):
        raise UsageError(
            "cannot draw what processes hold: expected the same tensors of each, found "
            f"{[list(t) for t in held.values()]}. Try {{'parent': {{'own': a}}, ...}}."
        )
    height = _ROW * len(held)
    ax = figure.axes(ax, 0.75 + height)
    ax.set(xlim=(0, 6.1), ylim=(height, 0), aspect="equal", anchor="W")
    ax.axis("off")
    left = _LABEL
    for name in names:
        numbers = [np.ravel(tensors[name]).tolist() for tensors in held.values()]
        if name in shared:
            # a line from each process to the one tensor in the middle
            left += 0.35
            _common(ax, left, name, numbers=numbers)
        else:
            _private(ax, left, name, numbers=numbers)
        left += _CELL * len(numbers[0]) + 0.5
    for row, process in enumerate(held):
        ax.text(0, _ROW * (row + 0.62), process, va="center", fontsize=11)
    seen = [f"{who} sees {_listed(tensors)}" for who, tensors in held.items()]
    title = "; ".join(f"{name}: {_kind(name in shared)}" for name in names)
    return figure.finish(ax, title, source="measured", alt="; ".join(seen), below=4)


def _private(ax, left, name, *, numbers):
    for row, own in enumerate(numbers):
        _cells(ax, (left, _ROW * row + 0.3), own, color=rank_color(row))
        ax.text(left, _ROW * row + 0.24, name, va="bottom", color="#555555")


def _common(ax, left, name, *, numbers):
    middle = _ROW * (len(numbers) / 2 + 0.12)
    for row in range(len(numbers)):
        ends = [left - 0.78, left - 0.03], [_ROW * (row + 0.62), middle]
        ax.plot(*ends, color=rank_color(row), linewidth=2, label=f"row {row}")
    _cells(ax, (left, middle - _CELL / 2), numbers[0], color=_GREY)
    place = left, middle - _CELL / 2 - 0.06
    ax.text(*place, f"{name}: one piece of memory", va="bottom", color="#555555")


def _cells(ax, corner, numbers, *, color):
    x, y = corner
    for i, number in enumerate(numbers):
        style = {"facecolor": color, "edgecolor": "white", "linewidth": 1.5}
        ax.add_patch(Rectangle((x + i * _CELL, y), _CELL, _CELL, **style))
        middle = x + (i + 0.5) * _CELL, y + _CELL / 2
        ax.text(*middle, f"{number:g}", color=text_color(color), **_CENTRED)


def _kind(shared):
    return "one tensor for all" if shared else "one in each process"


def _listed(tensors):
    parts = (f"{name} {np.ravel(x).tolist()}" for name, x in tensors.items())
    return listed(parts)


@figure.styled
def plot_updates(log, *, ax=None):
    """One bar per update of a counter, from its read to its write.

    `log` lists (process, start, stop, old, new), times in seconds. An update is lost if
    the next write comes from a process that had not read it.
    """
    if not log:
        raise UsageError("there is nothing to draw: the log of updates is empty")
    order = sorted(log, key=lambda update: update[2])
    gone = [later[3] != update[4] for update, later in zip(order, order[1:])] + [False]
    processes = sorted({update[0] for update in log})
    begin = min(update[1] for update in log)
    ax = figure.axes(ax, 1.6 + 0.5 * len(processes))
    figure.rows(ax, [f"process {process}" for process in processes])
    for (process, start, stop, old, new), lost in zip(order, gone, strict=True):
        row, color = processes.index(process), _GREY if lost else rank_color(process)
        style = {"color": color, "edgecolor": DARK if lost else "white", "height": 0.7}
        [bar] = ax.barh(row, stop - start, left=start - begin, **style)
        bar.set(linestyle="--" if lost else "-", label="lost" if lost else "kept")
        middle = (start + stop) / 2 - begin, row
        ax.text(*middle, f"{old} → {new}", color=text_color(color), **_CENTRED)
    ax.set(xlabel="time (s)", xlim=(0, 1.01 * (order[-1][2] - begin)))
    figure.grid(ax, "x")
    if any(gone):
        lost = Patch(facecolor=_GREY, edgecolor=DARK, linestyle="--", label="lost")
        figure.legend(ax, [lost])
    adds = many(len(log), "update")
    title = f"{adds}, {sum(gone)} lost: the counter ends at {order[-1][4]}"
    alt = "; ".join(
        f"process {p} writes {new} for {old}" for p, _, _, old, new in order
    )
    return figure.finish(ax, title, source="measured", alt=alt, below=36)


@figure.styled
def plot_sending(times, *, ax=None):
    """Time against size, both on logarithmic axes: `{way: {bytes: [seconds, …]}}`.

    Each point is the median of its seconds.
    """
    ax = figure.axes(ax, 3.2)
    ends = []
    for i, (way, by_size) in enumerate(times.items()):
        sizes = sorted(by_size)
        medians = [1e3 * statistics.median(by_size[size]) for size in sizes]
        style = {"color": rank_color(i), "marker": "os^Dv"[i % 5], "label": way}
        ax.loglog(sizes, medians, **style)
        ends.append(f"{way} {medians[-1]:.3g} ms")
    ax.set(xlabel="size (bytes)", ylabel="from put to get (ms)")
    figure.grid(ax)
    figure.legend(ax, ax.lines)
    largest = max(size for by_size in times.values() for size in by_size)
    title = f"{largest / 1e6:,.3g} MB: {', '.join(ends)}"
    return figure.finish(ax, title, source="measured: medians", below=36)


@figure.styled
def plot_staleness(newer, *, ax=None):
    """How many newer updates each gradient met: `{label: a number per update}`."""
    newer = {label: np.ravel(numbers) for label, numbers in newer.items()}
    top = max(int(numbers.max()) for numbers in newer.values())
    bins = [low for low in _BINS if low <= top] or [0]
    edges = [*bins, np.inf]
    shares = {
        label: dict(zip(_ranges(bins), _percent(numbers, edges), strict=True))
        for label, numbers in newer.items()
    }
    ax = _grouped(figure.axes(ax, 3.2), shares)
    ax.set(xlabel="updates of others between reading and writing")
    ax.set(ylabel="updates (%)", ylim=(0, 105))
    means = [f"{label}: {np.mean(numbers):.2g}" for label, numbers in newer.items()]
    title = f"Mean staleness: {', '.join(means)}"
    return figure.finish(ax, title, source="counted", alt=_told(shares, " %"), below=36)


def _ranges(lows):
    """`0`, `4–7`, `8 and more`: the names of bins that begin at `lows`."""
    names = [
        str(low) if high == low + 1 else f"{low}–{high - 1}"
        for low, high in zip(lows, lows[1:])
    ]
    return [*names, f"{lows[-1]}+" if lows[-1] > 3 else str(lows[-1])]


def _percent(numbers, edges):
    counts, _ = np.histogram(numbers, bins=edges)
    return 100 * counts / counts.sum()


@figure.styled
def plot_rates(rates, *, noun="updates", source="measured", ax=None):
    """What is done per second by n processes: `{label: {n: rate}}`."""
    ax = _grouped(figure.axes(ax, 3.2), rates)
    ax.set(xlabel="processes", ylabel=f"{noun} per second")
    best = {(label, n): rates[label][n] for label in rates for n in rates[label]}
    label, n = max(best, key=best.get)
    where = f"{n} process{'es' * (n > 1)}, {label}"
    title = f"Most {noun} per second: {where} ({best[label, n]:,.0f})"
    return figure.finish(ax, title, source=source, alt=_told(rates, " per s"), below=36)


def _grouped(ax, heights):
    """Bars side by side: a group per name, a colour per series."""
    width = 0.8 / len(heights)
    names = list(dict.fromkeys(name for bars in heights.values() for name in bars))
    for i, (label, bars) in enumerate(heights.items()):
        x = np.array([names.index(name) for name in bars])
        x = x + (i - (len(heights) - 1) / 2) * width
        ax.bar(x, list(bars.values()), 0.94 * width, color=rank_color(i), label=label)
    ax.set_xticks(range(len(names)), names)
    figure.grid(ax, "y")
    figure.legend(ax, ax.containers)
    return ax


def _told(heights, unit):
    """Every bar in words."""
    return "; ".join(
        f"{label}: {listed(f'{n}: {h:,.0f}{unit}' for n, h in bars.items())}"
        for label, bars in heights.items()
    )
