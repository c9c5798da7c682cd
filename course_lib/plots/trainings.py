"""Figures of a study of batch sizes: throughput, steps, rates, cost."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, NullLocator

from course_lib.colors import DARK, rank_color
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.text import listed

_GREY = "#666666"
_IDEAL = {"color": _GREY, "linestyle": "--", "linewidth": 1.5}
_STEADY = 0.9  # of the most images per second: from here on it is flat


@figure.styled
def plot_throughput(rates, *, source="measured", ax=None):
    """Images per second against batch size: `{label: {batch size: [rates]}}`.

    A point is a median, the band reaches from the slowest to the fastest. The dashed
    line is the ideal of the first label: a batch takes as long as the smallest one.
    """
    if not rates or not all(rates.values()):
        raise UsageError("cannot draw images per second: found no batch sizes")
    ax = figure.axes(ax, 3.6)
    middle = {
        label: {size: float(np.median(found)) for size, found in own.items()}
        for label, own in rates.items()
    }
    handles = []
    for i, (label, own) in enumerate(rates.items()):
        sizes, color = sorted(own), rank_color(i)
        line = [middle[label][size] for size in sizes]
        low, high = ([most(own[size]) for size in sizes] for most in (min, max))
        ax.fill_between(sizes, low, high, color=color, alpha=0.25, linewidth=0)
        handles += ax.plot(sizes, line, "o-", color=color, lw=2.5, label=label)
    first = next(iter(middle))
    least, most = min(middle[first]), max(middle[first])
    top = 1.5 * max(max(own.values()) for own in middle.values())
    per_image = middle[first][least] / least
    ideal = np.array([least, min(most, top / per_image)])
    handles += ax.plot(ideal, per_image * ideal, label="ideal", **_IDEAL)
    _log_axes(ax, sorted(middle[first]))
    _powers_of_ten(ax)
    ax.set(xlabel="batch size (images)", ylabel="images per second", ylim=(None, top))
    figure.legend(ax, handles)
    flat = [f"{label} from {_flat(own):,}" for label, own in middle.items()]
    title = f"More images per second, then flat: {listed(flat)} on"
    told = "; ".join(
        f"{label}: {listed(f'{n:,}: {own[n]:,.0f}' for n in sorted(own))}"
        for label, own in middle.items()
    )
    return figure.finish(ax, title, source=source, alt=told, below=36)


def _flat(own):
    """The smallest batch size with nearly the most images per second."""
    return min(size for size in own if own[size] >= _STEADY * max(own.values()))


@figure.styled
def plot_steps(study, *, live=None, fit=None, ax=None):
    """Steps to the target above, the best rate below, both against batch size.

    `study` and `live`, another one drawn as crosses, come from `steps_to_target`; the
    band reaches from the fastest to the slowest seed. `fit` is `(least, knee)` of the
    curve `least * (1 + knee / batch size)`. Two axes come back.
    """
    best = study.best()
    if len(best) < 2:
        raise UsageError(
            f"cannot draw steps against batch size: found {len(best)} batch sizes that"
            " reached the target with every seed, expected 2 or more."
        )
    upper, lower = ax if ax is not None else _panels((2.2, 1))
    sizes = np.array(sorted(best))
    means = np.array([np.mean(best[size][1]) for size in sizes])
    low, high = ([most(best[n][1]) for n in sizes] for most in (min, max))
    color = rank_color(0)
    upper.fill_between(sizes, low, high, color=color, alpha=0.25, linewidth=0)
    handles = upper.plot(sizes, means, "o-", color=color, lw=2, label="mean of seeds")
    ideal = np.array([sizes[0], sizes[0] * means[0] / (0.7 * means.min())])
    ideal[1] = min(ideal[1], sizes[-1])
    scaling = means[0] * sizes[0] / ideal
    handles += upper.plot(ideal, scaling, label="perfect scaling", **_IDEAL)
    if fit:
        handles.append(_curve(upper, fit, sizes))
    rates = [best[size][0] for size in sizes]
    lower.plot(sizes, rates, "o-", color=rank_color(2), lw=2, label="best rate")
    lower.vlines(sizes, *zip(*(study.near()[n] for n in sizes)), color=rank_color(2))
    _rules(lower, sizes, rates)
    if live:
        handles.append(_crosses((upper, lower), live.best()))
    for panel in (upper, lower):
        _log_axes(panel, sizes)
    _powers_of_ten(upper)
    upper.set(ylabel="steps to the target")
    lower.set(xlabel="batch size (images)", ylabel="best rate")
    figure.legend(upper, handles)
    title, alt = _steps_words(list(zip(sizes, means, rates)), fit)
    figure.finish(upper, title, alt=alt)
    figure.finish(lower, "", source=study.where, below=36)
    return np.array([upper, lower])


def _panels(heights):
    size = figure.WIDTH, 2.1 * sum(heights)
    options = {"layout": "constrained", "sharex": True, "height_ratios": heights}
    return plt.subplots(len(heights), figsize=size, **options)[1]


def _curve(ax, fit, sizes):
    least, knee = fit
    x = np.geomspace(sizes[0], sizes[-1], 100)
    (line,) = ax.plot(x, least * (1 + knee / x), color=rank_color(5), label="fit", lw=2)
    ax.axvline(knee, color=rank_color(5), linewidth=1, linestyle=":")
    ax.plot(knee, 2 * least, "o", color=rank_color(5), ms=9, mfc="none", label="knee")
    place = {"xytext": (8, 5), "textcoords": "offset points"}
    ax.annotate(f"knee {knee:.0f}", (knee, 2 * least), fontsize=11, **place)
    return line


def _rules(ax, sizes, rates):
    """The linear and the square-root rule, from the smallest batch size on."""
    for power, name in ((1, "linear rule"), (0.5, "square-root rule")):
        rule = rates[0] * (sizes / sizes[0]) ** power
        inside = rule <= 2.2 * max(rates)
        ax.plot(sizes[inside], rule[inside], label=name, **_IDEAL)
        place = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        end = sizes[inside][-1], rule[inside][-1]
        ax.annotate(name, end, color=_GREY, fontsize=10, **place)


def _crosses(axes, best):
    style = {"color": DARK, "linestyle": "", "marker": "x", "ms": 9, "mew": 2}
    upper, lower = axes
    means = [np.mean(steps) for _, steps in best.values()]
    lower.plot(list(best), [rate for rate, _ in best.values()], label="live", **style)
    return upper.plot(list(best), means, label="run here", **style)[0]


def _steps_words(rows, fit):
    """Title and alt text: what doubling the batch saves at either end."""
    saved = [
        max(0, 1 - (later / before) ** (1 / np.log2(larger / size)))
        for (size, before, _), (larger, later, _) in zip(rows, rows[1:])
    ]
    title = (
        f"Twice the batch saves {saved[0]:.0%} of the steps at first,"
        f" {saved[-1]:.0%} at last"
    ).replace("%", " %")
    told = "; ".join(f"{n:,}: {mean:,.0f} steps, rate {r:.3g}" for n, mean, r in rows)
    if fit:
        told += f"; fit with at least {fit[0]:.0f} steps and its knee at {fit[1]:.0f}"
    return title, told


@figure.styled
def plot_pareto(points, *, chosen=None, xlabel, ylabel, source="modelled", ax=None):
    """What each batch size costs and how long it takes: `{batch size: (cost, time)}`.

    A filled point is on the front: no other one is both cheaper and faster. `chosen`
    is marked.
    """
    ax = figure.axes(ax, 3.6)
    front = {n for n in points if not any(_beats(points[m], points[n]) for m in points)}
    sizes = sorted(points)
    ax.plot(*zip(*(points[n] for n in sorted(front))), color=rank_color(0), lw=1.5)
    for n in sizes:
        face = rank_color(0) if n in front else "white"
        ax.plot(*points[n], "o", ms=8, mfc=face, mec=rank_color(0), mew=1.5)
        place = {"xytext": (6, 6), "textcoords": "offset points", "fontsize": 10}
        ax.annotate(f"{n:,}", points[n], **place)
    if chosen is not None:
        style = {"mfc": "none", "mec": rank_color(5), "mew": 3}
        ax.plot(*points[chosen], "o", ms=17, label="chosen", **style)
    ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(_number))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    ax.margins(0.12)
    ax.spines[["top", "right"]].set_visible(False)
    figure.grid(ax)
    title = "Each point is a batch size: left is cheaper, down is sooner"
    if chosen is not None:
        title = f"Batch size {chosen:,} costs least at these prices"
    told = "; ".join(f"{n:,}: {points[n][0]:,.4g}, {points[n][1]:,.4g}" for n in sizes)
    return figure.finish(ax, title, source=source, alt=told, below=36)


def _number(value, _):
    """The label of a tick on a logarithmic axis."""
    return f"{value:,.0f}" if value >= 1 else f"{value:.3g}"


def _beats(one, other):
    """True if `one` is no worse in both, and better in one."""
    return one != other and all(a <= b for a, b in zip(one, other))


def _log_axes(ax, sizes):
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    shown = sizes if len(sizes) <= 12 else sizes[::2]
    ax.set_xticks(shown, [f"{n:,}" for n in shown])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.spines[["top", "right"]].set_visible(False)
    ax.yaxis.set_major_formatter(FuncFormatter(_number))
    ax.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    figure.grid(ax)


def _powers_of_ten(ax):
    ax.yaxis.get_major_locator().set_params(subs=(1.0,))
