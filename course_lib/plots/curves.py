"""Figures of many trainings: curves with bands, and values with intervals."""

import math

import numpy as np

from course_lib.colors import rank_color
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.text import many

# two-sided 95 % of Student's t by degrees of freedom; beyond the last about 1.96
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16)
_T += (2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06)


@figure.styled
def plot_curves(curves, *, xlabel, ylabel, source="measured", title="", ax=None):
    """Lines with bands: `{label: (x[T], values[T, seeds])}`.

    A line is the mean over seeds, the band reaches from the least to the most. A label
    that begins with "train" is dashed, in the colour of the label before it.
    """
    ax = figure.axes(ax, 3.4)
    handles, color, ends = [], -1, []
    for label, (x, values) in curves.items():
        x, values = np.asarray(x), np.asarray(values, float)
        values = values.reshape(len(x), -1)
        dashed = label.startswith("train") and color >= 0
        color += not dashed
        style = {"color": rank_color(color), "label": label}
        known = ~np.isnan(values).all(1)
        if not known.any():
            raise UsageError(
                f"cannot draw {label!r}: none of its values is a number. (A sweep whose"
                " target is on the validation set measures nothing of the other one.)"
            )
        x, values = x[known], values[known]
        band = np.nanmin(values, 1), np.nanmax(values, 1)
        if not dashed:
            shade = {"color": style["color"], "alpha": 0.2, "linewidth": 0}
            ax.fill_between(x, *band, **shade)
        style |= {"linestyle": "--" if dashed else "-", "linewidth": 2}
        mean = np.nanmean(values, 1)
        handles += ax.plot(x, mean, **style)
        ends.append(f"{label}: {mean[0]:.3g} at first, {mean[-1]:.3g} at the end")
    ax.set(xlabel=xlabel, ylabel=ylabel, xlim=(0, None))
    ax.spines[["top", "right"]].set_visible(False)
    figure.grid(ax)
    figure.legend(ax, handles)
    return figure.finish(ax, title, source=source, alt="; ".join(ends), below=36)


@figure.styled
def plot_spread(groups, *, xlabel, source="measured", title="", ax=None):
    """One row per group, `{label: values[seeds]}`: each value, and the mean of all.

    The bar is the 95 % interval of the mean (Student's t): where two bars are apart,
    chance alone seldom explains the difference.
    """
    ax = figure.axes(ax, 1.3 + 0.5 * len(groups))
    figure.rows(ax, list(groups))
    told = []
    for row, (label, values) in enumerate(groups.items()):
        values = np.ravel(np.asarray(values, float))
        mean, half = interval(values)
        # side by side rather than on top of each other, the same in every run
        places = row + 0.22 * np.linspace(-1, 1, len(values))
        style = {"color": rank_color(row)}
        ax.plot(values, places, "o", ms=5, alpha=0.35, mew=0, label=label, **style)
        ax.errorbar(mean, row, xerr=half, fmt="o", ms=9, lw=3, capsize=6, **style)
        text = _said(mean, half)
        place = (1.01, row), ("axes fraction", "data")
        ax.annotate(text, place[0], xycoords=place[1], va="center", fontsize=11)
        told.append(f"{label}: {text} ({many(len(values), 'seed')})")
    ax.set(xlabel=xlabel)
    figure.grid(ax, "x")
    return figure.finish(ax, title, source=source, alt="; ".join(told), below=36)


def _said(mean, half):
    """`0.21 ± 0.14`: as many decimals for both as two digits of the interval need."""
    if not half > 0:  # one value, or equal ones
        return f"{mean:.3g}"
    decimals = max(0, 1 - math.floor(math.log10(half)))
    mean = round(mean, decimals) + 0.0  # no -0.00
    return f"{mean:.{decimals}f} ± {half:.{decimals}f}"


def interval(values):
    """Mean, and half the width of its 95 % interval; nan for one value alone."""
    count = len(values)
    if count < 2:
        return float(np.mean(values)), float("nan")
    factor = _T[count - 2] if count - 2 < len(_T) else 1.96 + 2.4 / (count - 1)
    return float(np.mean(values)), factor * float(np.std(values, ddof=1)) / count**0.5
