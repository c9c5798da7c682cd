"""The figure of bars: a group per name, a colour per series."""

import math
import textwrap
from typing import NamedTuple

import numpy as np

from course_lib.colors import DARK, edge, rank_color
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.text import listed, many

# two-sided 95 % of Student's t by degrees of freedom; beyond the last about 1.96
# (scipy has them too, but takes more than half a second to import)
# fmt: off
_T = (
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16,
    2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06,
)
# fmt: on
_LETTERS = 68  # of the names below the bars


class _Bar(NamedTuple):
    """Where a bar stands, the values it shows, their mean and interval."""

    x: float
    values: np.ndarray
    mean: float
    half: float  # of the interval; nan for one value alone

    @property
    def top(self):
        """Return the upper end of all that is drawn for it, 0 or more."""
        return max(0, *self.values, self.mean + np.nan_to_num(self.half))

    def __str__(self):
        """`0.21 ± 0.14`: as many decimals as two digits of the interval need."""
        if not self.half > 0:  # one value, or equal ones
            return f"{self.mean:,.3g}" if abs(self.mean) < 1000 else f"{self.mean:,.0f}"
        decimals = max(0, 1 - math.floor(math.log10(self.half)))
        mean = round(self.mean, decimals) + 0.0  # no -0.00
        return f"{mean:.{decimals}f} ± {self.half:.{decimals}f}"


@figure.styled
def plot_bars(heights, *, ylabel, xlabel="", title="", source="measured", ax=None):
    """Draw bars: `{series: {name: height}}`, for one series `{name: height}`.

    A height may be a list of values, one per seed: the bar is their mean, the line its
    95 % interval (Student's t), a point each value. Where two such lines are apart,
    chance alone seldom explains the difference.
    """
    grouped = all(hasattr(bars, "items") for bars in heights.values())
    series = heights if grouped else {"": heights}
    names = list(dict.fromkeys(name for bars in series.values() for name in bars))
    if not names:
        raise UsageError("cannot draw bars: found none, expected {name: height}")
    ax = figure.axes(ax, 3.2)
    width = 0.8 / len(series)
    alt, every_bar = [], []
    for i, (label, bars) in enumerate(series.items()):
        shift = (i - (len(series) - 1) / 2) * width
        bars = {name: _bar(names.index(name) + shift, bars[name]) for name in bars}
        _draw(ax, bars.values(), width=0.94 * width, color=rank_color(i), label=label)
        alt.append(f"{label}: {_alt(bars)}".removeprefix(": "))
        every_bar += bars.values()
    wrap = textwrap.TextWrapper(_LETTERS // len(names) + 1)
    names = [wrap.fill(str(name)) for name in names]
    ax.set_xticks(range(len(names)), names)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.margins(y=0.12)
    figure.grid(ax, "y")
    figure.legend(ax, ax.containers)
    below = 20 + 16 * bool(xlabel) + 14 * max(name.count("\n") for name in names)
    figure.finish(ax, title, source=source, alt="; ".join(alt), below=below)
    _write(ax, every_bar, width)
    return ax


def _bar(x, values):
    values = np.ravel(np.asarray(values, float))
    return _Bar(x, values, *interval(values))


def interval(values):
    """Return mean, and half the width of its 95 % interval; nan for one value alone."""
    count = len(values)
    if count < 2:
        return float(np.mean(values)), float("nan")
    factor = _T[count - 2] if count - 2 < len(_T) else 1.96 + 2.4 / (count - 1)
    return float(np.mean(values)), factor * float(np.std(values, ddof=1)) / count**0.5


def _draw(ax, bars, *, width, color, label):
    """Draw the bars of one series; of several values the interval and the points."""
    x, means = zip(*((bar.x, bar.mean) for bar in bars), strict=True)
    several = any(len(bar.values) > 1 for bar in bars)
    alpha = 0.5 if several else 1
    fill = (color, alpha)
    ax.bar(x, means, width, facecolor=fill, edgecolor=edge(color), label=label)
    for bar in bars:
        if len(bar.values) > 1:
            # side by side rather than on top of each other, the same in every run
            places = bar.x + 0.3 * width * np.linspace(-1, 1, len(bar.values))
            style = {"color": DARK, "ms": 4, "mew": 0, "alpha": 0.4, "label": "values"}
            ax.plot(places, bar.values, "o", **style)
            style = {"color": DARK, "lw": 3, "capsize": 8, "zorder": 3}
            ax.errorbar(bar.x, bar.mean, yerr=bar.half, **style)


def _write(ax, bars, width):
    """Write the height above each bar, if all of them fit."""
    if max(figure.text_width(str(bar)) for bar in bars) > width * figure.points(ax)[0]:
        return
    style = {"textcoords": "offset points", "ha": "center", "va": "bottom"}
    for bar in bars:
        ax.annotate(str(bar), (bar.x, bar.top), xytext=(0, 3), **style)


def _alt(bars):
    """Every bar in words."""
    return listed(f"{name}: {bar}{_seeds(bar)}" for name, bar in bars.items())


def _seeds(bar):
    return f" ({many(len(bar.values), 'seed')})" if len(bar.values) > 1 else ""
