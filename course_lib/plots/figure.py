"""The frame that all figures share: size, look, title, legend, source and alt text."""

import functools
import html
import textwrap
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch
from matplotlib.textpath import TextPath
from matplotlib.ticker import ScalarFormatter
from matplotlib.transforms import ScaledTranslation

from course_lib.colors import edge

WIDTH = 6.4  # in
_ROOM = 400  # points beside the axis of y
ACROSS = 6.1  # in, what margins leave of it
CENTRED = {"ha": "center", "va": "center_baseline"}
GREY = "#e0e0e0"  # of what belongs to nobody
NUMBERS = "{x:,.10g}"  # on axes: plain, thousands with commas
# in a dark theme a soft grey in place of white: JupyterLab's own background, thinned
_SURFACE = (
    "display:inline-block;border-radius:6px;max-width:100%;"
    "background:color-mix(in srgb, white 84%, var(--jp-layout-color1, white))"
)
_MIX = "mix-blend-mode:multiply;display:block;max-width:100%"
_INK = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
_STYLE = {
    "font.size": 10,
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "xtick.labelsize": 10,
    "ytick.labelsize": 11,
    "legend.fontsize": 10,
    "hatch.color": "white",
    "hatch.linewidth": 1.5,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
} | dict.fromkeys(_INK, "black")


def styled(plot):
    """Draw `plot` in the course's own look; the learner's settings stay."""

    @functools.wraps(plot)
    def wrapper(*args, **kwargs):
        # not rc_context, which would undo the interactive mode that a notebook's
        # backend switches on while the first figure is made
        settings: Any = plt.rcParams
        before = {name: settings[name] for name in _STYLE}
        settings.update(_STYLE)
        try:
            return plot(*args, **kwargs)
        finally:
            settings.update(before)

    return wrapper


def axes(ax, height):
    """Return the given axes, or new ones 6.4 in wide and `height` in high."""
    if ax is None:
        _, ax = plt.subplots(figsize=(WIDTH, height), layout="constrained")
    return ax


def canvas(ax, height, *, margins):
    """Return axes without a frame: a unit is an inch, y goes down to `height`."""
    ax = axes(ax, margins + height)
    ax.set(xlim=(0, ACROSS), ylim=(height, 0), aspect="equal", anchor="W")
    ax.axis("off")
    return ax


def rows(ax, names):
    """Make one row per name, the first on top, in a frame open but for x."""
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "left", "right"]].set_visible(False)


def grid(ax, axis="both"):
    """Draw light lines behind the data, in a frame open above and right."""
    ax.grid(axis=axis, color="#dddddd", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def patches(colors, names):
    """Return entries of a legend: a patch of its colour for each of the names."""
    return [
        Patch(facecolor=colors[name], edgecolor=edge(colors[name]), label=name)
        for name in names
    ]


def legend(ax, handles):
    """Draw a legend above the data, of those handles that have a label."""
    # what has none is named "_child0" or "_container0" by matplotlib
    handles = [handle for handle in handles if handle.get_label()[:1] != "_"]
    if not handles:
        return
    ax.legend(
        handles=handles,
        ncols=_columns([handle.get_label() for handle in handles]),
        loc="lower left",
        bbox_to_anchor=(0, 1),
        frameon=False,
        borderaxespad=0.3,
        borderpad=0,
        handlelength=1.2,
        handletextpad=0.5,
        columnspacing=1.4,
    )


def _columns(labels):
    """All in one row if there is room for them, else half of them, or three."""
    if len(labels) > 5:
        return 3
    wide = sum(text_width(label) + 30 for label in labels)
    return len(labels) if wide < _ROOM else -(-len(labels) // 2)


def finish(ax, title, *, source="", alt="", below=0):
    """Add title, the source `below` points under the axes, and alt text."""
    texts = ax.get_legend().get_texts() if ax.get_legend() else ()
    labels = [text.get_text() for text in texts]
    lines = -(-len(labels) // _columns(labels)) if labels else 0
    ax.set_title("\n".join(title_lines(title)), loc="left", pad=16 * lines + 8)
    shift = ScaledTranslation(0, -below / 72, ax.figure.dpi_scale_trans)
    place = ax.transAxes + shift
    for axis in (ax.xaxis, ax.yaxis):
        plain = isinstance(axis.get_major_formatter(), ScalarFormatter)
        if plain and axis.get_view_interval()[1] >= 1000:
            axis.set_major_formatter(NUMBERS)
    # a line wider than the figure would leave no room for the axes
    text = "\n".join(textwrap.wrap(source, 72))
    ax.text(0, 0, text, color="#555555", va="top", transform=place)
    parts = [title.replace("\n", ". "), alt, source]
    ax.alt_text = " ".join(part.rstrip(".") + "." for part in parts if part)
    ax.figure._repr_mimebundle_ = functools.partial(_bundle, ax.figure)
    return ax


def title_lines(title):
    """Return the lines of a title, none wider than the figure."""
    return [part for line in title.split("\n") for part in textwrap.wrap(line, 66)]


def _bundle(figure, include=None, exclude=None):
    """Alt text for notebooks: JupyterLab and nbconvert take it from HTML alone."""
    from IPython.core.pylabtools import print_figure

    alt = " ".join(getattr(ax, "alt_text", "") for ax in figure.axes).strip()
    png = print_figure(figure, base64=True)
    source = f"data:image/png;base64,{png}"
    image = f'<img alt="{html.escape(alt)}" style="{_MIX}" src="{source}">'
    page = f'<div style="{_SURFACE}">{image}</div>'
    return {"text/html": page}, {"image/png": {"alt": alt}}


def bytes_source(trace):
    """Return the source of a figure of bytes, which virtual GPUs count."""
    modelled = trace.source.startswith("modelled")
    return f"bytes counted, time {trace.source}" if modelled else trace.source


def points(ax):
    """Return points per unit of data along x and y, once the layout is settled."""
    ax.figure.draw_without_rendering()
    box = ax.get_window_extent()
    width, height = np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())
    scale = 72 / ax.figure.dpi
    return box.width / width * scale, box.height / height * scale


@functools.lru_cache(1024)
def text_width(text):
    """Return points that `text` is wide."""
    return TextPath((0, 0), text, size=10).get_extents().width if text.strip() else 0
