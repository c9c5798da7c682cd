"""The figure of curves: lines with bands, dashed references, and points."""

from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from course_lib.colors import DARK, edge, rank_color
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.text import listed, size

_FEW = 20  # values up to which each is marked
_MIDDLES: dict[str, Any] = {"mean": np.mean, "median": np.median}
_MARKS = (("x", 9), ("o", 14), ("D", 9))  # with their size in points
_WIDE = 340  # points that an axis has for its labels


class _Curve(NamedTuple):
    """The values at each x that has any, and their mean or median."""

    x: np.ndarray
    y: np.ndarray
    values: tuple  # of arrays, one for each x


@figure.styled
def plot_curves(
    curves,
    *,
    xlabel,
    ylabel,
    title="",
    source="measured",
    reference=(),
    points=(),
    log="",
    estimator="mean",
    ax=None,
):
    """Draw lines with bands: `{label: (x, values[T, seeds])}`, `{label: {x: values}}`.

    A line is the mean over seeds, or with `estimator="median"` their median; the band
    reaches from the least to the most. A label that begins with "train" is dashed, in
    the colour of the label before it. `reference` holds curves to compare with, grey
    and dashed, `points` such that are marks without a line. `log` is "x", "y" or "xy".
    """
    if estimator not in _MIDDLES:
        raise UsageError(
            f"cannot draw the {estimator!r} of values: expected 'mean' or 'median'."
        )
    lines, dashed, marks = (
        {label: _read(label, curve, estimator) for label, curve in dict(group).items()}
        for group in (curves, reference, points)
    )
    if not lines:
        raise UsageError("cannot draw curves: found none, expected {label: {x: y}}")
    ax = figure.axes(ax, 3.4)
    handles = _draw(ax, lines)
    for (label, curve), dashes in zip(dashed.items(), cycle(("--", ":", "-."))):
        style = {"color": "#666666", "linewidth": 1.5, "label": label}
        handles += ax.plot(curve.x, curve.y, dashes, **style)
    for (label, curve), (marker, diameter) in zip(marks.items(), cycle(_MARKS)):
        style = {"color": DARK, "ms": diameter, "mew": 2, "mfc": "none", "label": label}
        handles += ax.plot(curve.x, curve.y, marker, **style)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    figure.grid(ax)
    _scale(ax, log, sorted({x for curve in lines.values() for x in curve.x}))
    figure.legend(ax, handles)
    alt = [*map(_ends, lines.items()), *map(_places, marks.items())]
    return figure.finish(ax, title, source=source, alt="; ".join(alt), below=36)


def _read(label, curve, estimator):
    """Read a curve of two sequences or of a dict, without what is no number."""
    if hasattr(curve, "items"):
        order = sorted(curve)
        curve = order, [curve[x] for x in order]
    x, values = curve
    rows = [np.ravel(np.asarray(row, float)) for row in values]
    rows = [row[~np.isnan(row)] for row in rows]
    known = [(float(at), row) for at, row in zip(x, rows, strict=True) if row.size]
    if not known:
        raise UsageError(
            f"cannot draw {label!r}: none of its values is a number. (A sweep whose"
            " target is on the validation set measures nothing of the other one.)"
        )
    x, rows = zip(*known, strict=True)
    middles = [_MIDDLES[estimator](row) for row in rows]
    return _Curve(np.array(x), np.array(middles), rows)


def _draw(ax, lines):
    """Draw the lines with their bands, a colour and a marker for each."""
    handles, color = [], -1
    for label, curve in lines.items():
        dashed = label.startswith("train") and color >= 0
        color += not dashed
        style = {"color": rank_color(color), "linewidth": 2, "label": label}
        if not dashed:
            edges = list(map(min, curve.values)), list(map(max, curve.values))
            shade = {"color": style["color"], "alpha": 0.2, "linewidth": 0}
            ax.fill_between(curve.x, *edges, **shade)
        if (outline := edge(style["color"])) != edge("#000000"):
            style["mec"] = outline
            style["path_effects"] = [Stroke(linewidth=3, foreground=outline), Normal()]
        if len(curve.x) <= _FEW and not dashed:
            style["marker"] = "os^Dv"[color % 5]
        handles += ax.plot(curve.x, curve.y, "--" if dashed else "-", **style)
    return handles


def _scale(ax, log, numbers):
    """Axes from 0, or logarithmic with plain numbers, or bytes, as labels."""
    if "x" not in log:
        ax.set_xlim(0, None)
    for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        if name not in log:
            continue
        getattr(ax, f"set_{name}scale")("log")
        low, high = axis.get_view_interval()
        subs = (1, 2, 5) if high < 100 * low else (1,)
        axis.set_major_locator(LogLocator(subs=subs))
        axis.set_major_formatter(figure.NUMBERS)
        axis.set_minor_formatter(NullFormatter())
    whole = all(x == int(x) for x in numbers)
    if whole and "x" not in log:  # there is no half a rank
        steps = [1, 2, 2.5, 5, 10]
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=steps))
    if whole and "x" in log:
        word = size if ax.get_xlabel() == "bytes" else "{:,.0f}".format
        ticks = _apart({x: word(x) for x in numbers if x > 0})
        ax.set_xticks(list(ticks), ticks.values())
        ax.xaxis.set_minor_locator(NullLocator())


def _apart(labels):
    """Every, every second, every third … label, so that none touches the next."""
    places = {x: _WIDE * np.log(x) for x in labels}
    long = (max(places.values()) - min(places.values())) / _WIDE or 1
    half = {x: figure.text_width(label) / 2 + 4 for x, label in labels.items()}
    for step in range(1, len(labels) + 1):
        chosen = list(labels)[::step]
        pairs = zip(chosen, chosen[1:])
        if all((places[b] - places[a]) / long > half[a] + half[b] for a, b in pairs):
            return {x: labels[x] for x in chosen}
    return labels


# --- words


def _ends(item):
    label, curve = item
    first, last = curve.y[0], curve.y[-1]
    return f"{label}: {first:.3g} at first, {last:.3g} at the end".removeprefix(": ")


def _places(item):
    label, curve = item
    return f"{label}: " + listed(f"{y:.3g} at {x:,g}" for x, y in zip(*curve[:2]))
