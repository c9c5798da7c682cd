"""The figure of transfers: devices in a row, an arrow for what each sends to another.

What goes to the right passes above the row, what goes to the left below it, as in an
arc diagram (Wattenberg, "Arc Diagrams", 2002).
"""

import math

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from course_lib.colors import DARK, TRANSFER_COLORS
from course_lib.errors import UsageError
from course_lib.plots import arrows, device_captions, figure
from course_lib.text import rank_order

_BOX = 0.36  # in, the height of a device


@figure.styled
def plot_transfers(trace, *, ax=None):
    """Devices in a row and an arrow for each name, source and target, with its bytes.

    Several copies are summed: `3 × copy 1 MB`. A device sends to the right above the
    row, to the left below it. From 6 devices on what fans out or in shares its words.
    """
    flows = _flows(trace)
    devices = sorted({d for _, *ends in flows for d in ends}, key=rank_order)
    sent = arrows.levelled(arrows.collect(flows, devices))
    boxes, ports = arrows.columns(sent, devices)
    words = [arrows.words(bundle, sent, ports) for bundle in arrows.bundles(sent)]
    above, below = (arrows.heights(words, side) for side in (True, False))
    height = above[-1] + _BOX + below[-1] + 0.1
    title, alt = device_captions.transfers(flows)
    ax = figure.axes(ax, 0.58 + 0.2 * len(figure.wrap(title)) + height)
    ax.set(xlim=(0, arrows.ACROSS), ylim=(height, 0), aspect="equal", anchor="W")
    ax.axis("off")
    top = above[-1] + 0.05
    most = max(sum(arrow.sizes) for arrow in sent) or 1
    for arrow in sent:
        edge = top if arrow.above else top + _BOX
        y = edge - above[arrow.level] if arrow.above else edge + below[arrow.level]
        port = ports[arrow.bundle, arrow.source], ports[arrow.bundle, arrow.target]
        _draw(ax, arrow, _path(port, edge, y), share=sum(arrow.sizes) / most)
    for arrow, text, x in words:
        y = top - above[arrow.level] if arrow.above else top + _BOX + below[arrow.level]
        _write(ax, (x, y), text, above=arrow.above)
    for device, ends in zip(devices, boxes, strict=True):
        _box(ax, arrows.short(device, devices), ends, top=top)
    source = device_captions.source(trace)
    return figure.finish(ax, title, source=source, alt=alt, below=6)


def _flows(trace):
    """`{(name, source, target): [bytes]}` in order of first appearance, checked."""
    if trace is None:
        raise UsageError("there is no trace to draw: record one with cl.trace()")
    flows = {}
    for one in trace.transfers:
        if one.source != one.target:
            key = one.name, one.source, one.target
            flows.setdefault(key, []).append(one.bytes)
    if not flows:
        raise UsageError(
            "cannot draw transfers: nothing was copied between devices while the trace "
            "was recorded. Move a tensor, as in `x.to(devs[1])`, inside the block."
        )
    return flows


def _path(port, edge, y):
    """From one port out to `y`, along and back to the other, with round corners."""
    (start, stop), way = port, math.copysign(1, port[1] - port[0])
    r = min(0.22, abs(stop - start) / 2, abs(edge - y))
    back = y + math.copysign(r, edge - y)
    points = [(start, edge), (start, back), (start, y), (start + way * r, y)]
    points += [(stop - way * r, y), (stop, y), (stop, back), (stop, edge)]
    line, curve = Path.LINETO, Path.CURVE3
    return Path(points, [Path.MOVETO, line, curve, curve, line, curve, curve, line])


def _draw(ax, arrow, path, *, share):
    # a decade of bytes is a point of width
    width = max(1, 4.5 + math.log10(share)) if share else 1
    color = TRANSFER_COLORS.get(arrow.name, "#666666")
    style = {"arrowstyle": "-|>", "mutation_scale": 9 + 1.5 * width}
    shown = FancyArrowPatch(path=path, color=color, linewidth=width, **style)
    shown.set(label=arrow.name, joinstyle="miter", capstyle="butt")
    ax.add_patch(shown)


def _write(ax, place, text, *, above):
    """One line of text on its arrow, more lines beyond it."""
    beyond = 0.06 * (-1 if above else 1) if "\n" in text else 0
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    edge = ("bottom" if above else "top") if beyond else "center"
    style = {"ha": "center", "va": edge, "bbox": box, "linespacing": 1.1}
    ax.text(place[0], place[1] + beyond, text, **style)


def _box(ax, name, ends, *, top):
    (left, right), round_ = ends, "round,pad=0,rounding_size=0.06"
    style = {"facecolor": "#f0f0f0", "edgecolor": DARK, "label": name}
    ax.add_patch(FancyBboxPatch((left, top), right - left, _BOX, round_, **style))
    middle = (left + right) / 2, top + _BOX / 2
    ax.text(*middle, name, ha="center", va="center_baseline", fontsize=10)
