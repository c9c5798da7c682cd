"""The figure of transfers: a source × target matrix of bytes."""

from collections import Counter

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, ListedColormap, LogNorm, to_hex

from course_lib.colors import ROLE_COLORS, text_color
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.text import listed, many, rank_noun, rank_order, size

_LIGHT = "#fdf0e6"  # of the least, after three decades of bytes
_SHADES = LinearSegmentedColormap.from_list("", [_LIGHT, ROLE_COLORS["communicate"]])
_LINE = 12  # points, of text in a cell


@figure.styled
def plot_transfers(trace, *, ax=None):
    """Draw a row per sending device, a column per receiving one: bytes in all.

    The darker a cell, the more. Where there is room, it tells the bytes by name, such
    as `broadcast 4.2 MB`; a device sends nothing to itself. `trace` may also be the
    meter of a launch, `results.meter`: a row and a column per rank.
    """
    flows = _flows(trace)
    devices = sorted({device for _, *ends in flows for device in ends}, key=rank_order)
    title, alt = _captions(flows)
    cells = _cells(flows, devices)
    names = max(map(len, cells.values())) if len(devices) <= 5 else 1
    height = len(devices) * (0.22 + 0.2 * names if len(devices) <= 8 else 0.34)
    ax = figure.axes(ax, 1.1 + 0.2 * len(figure.title_lines(title)) + height)
    image = _shade(ax, cells, len(devices))
    labels = [_short(device, devices) for device in devices]
    ax.set_xticks(range(len(devices)), labels)
    ax.set_yticks(range(len(devices)), labels)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set(xlabel="to", ylabel="from")
    ax.tick_params(length=0)
    source = figure.bytes_source(trace)
    figure.finish(ax, title, source=source, alt=alt, below=6)
    room = figure.points(ax)
    style = {"ha": "center", "va": "center", "linespacing": 1.1}
    for (row, column), by_name in cells.items():
        color = text_color(to_hex(image.to_rgba(by_name.total())))
        ax.text(column, row, _fitting(by_name, room), color=color, **style)
    return ax


def _flows(trace):
    """`{(name, source, target): [bytes]}` in order of first appearance, checked."""
    if trace is None:
        raise UsageError("there is no trace to draw: record one with cl.trace()")
    flows = {}
    for copy in trace.transfers:
        if copy.source != copy.target:
            key = copy.name, copy.source, copy.target
            flows.setdefault(key, []).append(copy.bytes)
    if not flows:
        raise UsageError(
            "cannot draw transfers: nothing was copied between devices while the trace "
            "was recorded. Move a tensor, as in `x.to(devs[1])`, inside the block."
        )
    return flows


def _cells(flows, devices):
    """`{(row, column): {name: bytes}}` of the cells that are not empty."""
    cells = {}
    for (name, source, target), sizes in flows.items():
        place = devices.index(source), devices.index(target)
        cells.setdefault(place, Counter())[name] += sum(sizes)
    return cells


def _shade(ax, cells, count):
    """Colour the cells; the image, which knows the colour of so many bytes."""
    totals = np.ma.masked_all((count, count))
    for place, by_name in cells.items():
        totals[place] = by_name.total()
    most = totals.max() or 1
    # a third of the shades for a decade of bytes
    norm = LogNorm(most / 1000, most, clip=True)
    image = ax.imshow(totals, cmap=_SHADES, norm=norm, aspect="auto")
    # nothing goes to oneself
    own = np.ma.masked_equal(np.eye(count), 0)
    ax.imshow(own, cmap=ListedColormap([figure.GREY]), aspect="auto")
    edges = np.arange(count + 1) - 0.5
    ax.hlines(edges, -0.5, count - 0.5, color="#bbbbbb", linewidth=0.8)
    ax.vlines(edges, -0.5, count - 0.5, color="#bbbbbb", linewidth=0.8)
    ax.spines[:].set_visible(False)
    return image


def _short(device, devices):
    """Return the name of a row and a column: of a crowd only the index."""
    return device if len(devices) < 10 else device.rpartition(":")[2]


def _fitting(by_name, room):
    """Write the bytes by name, or else in all, in one or two lines, as they fit."""
    total = size(by_name.total())
    rows = [f"{name} {size(count)}".strip() for name, count in by_name.items()]
    for lines in (rows, [total], total.split()):
        wide = max(map(figure.text_width, lines)) + 4
        if wide <= room[0] and _LINE * len(lines) <= room[1]:
            return "\n".join(lines)
    return ""


# --- words


def _captions(flows):
    """Title and alt text of `{(name, source, target): [bytes]}`."""
    by_name, sent, touched = Counter(), Counter(), Counter()
    for (name, *ends), sizes in flows.items():
        by_name[name] += sum(sizes)
        sent[ends[0]] += sum(sizes)
        touched.update(dict.fromkeys(ends, len(sizes)))
    facts = [_by_name(by_name)] if len(by_name) > 1 else []
    copies = sum(map(len, flows.values()))
    hubs = [device for device, count in touched.items() if count == copies]
    if len(touched) > 2 and len(hubs) == 1:
        facts.append(f"{hubs[0]} sends or receives all of it")
    alt = (f"{s} to {t}: {_flow(name, b)}" for (name, s, t), b in flows.items())
    verb = "copied" if any(by_name) else "sent"
    head = f"{size(sent.total())} {verb}{_who(sent)}"
    return "\n".join([head, *facts]), "; ".join(alt)


def _flow(name, sizes):
    """`copy 1 MB`, `3 × copy 1 MB` of equal ones, or `2 × copy, 12 kB in all`."""
    head = f"{len(sizes)} × {name}" if len(sizes) > 1 else name
    if len(set(sizes)) == 1:
        return f"{head} {size(sizes[0])}".strip()
    return f"{head}, {size(sum(sizes))} in all"


def _who(sent):
    """Who sends the most of it."""
    (most, count), *rest = sent.most_common()
    first = [device for device in sent if size(sent[device]) == size(count)]
    if not rest:
        return f", all from {most}"
    if len(first) > 1:
        crowd = many(len(first), rank_noun(most))
        each = listed(first) if len(first) <= 3 else crowd
        most = "" if len(first) == len(sent) else " the most,"
        return f": {each} send{most} {size(count)} each"
    share = 100 * count / sent.total()
    return f": most leaves {most}, {size(count)} ({share:.0f} %)"


def _by_name(counts):
    """Write the bytes of each operation; of many the two largest, and the rest."""
    largest = counts.most_common(3 if len(counts) == 3 else 2)
    rest = counts.total() - sum(count for _, count in largest)
    texts = [f"{name} {size(count)}" for name, count in largest]
    return ", ".join([*texts, f"the rest {size(rest)}"] if rest else texts)
