"""The figure of memory: what fills each device."""

import textwrap
from typing import NamedTuple

from matplotlib.patches import Patch

from course_lib.accelerators.memory import KINDS, Memory
from course_lib.colors import DARK, MEMORY_COLORS, text_color
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.text import byte_unit, listed, size

_NEAR = 3  # a capacity up to so many times the largest bar is drawn as a line
_LABEL = 66  # points of a row's name, so that title and legend keep their room


class _Row(NamedTuple):
    """One device of one label: bytes in the order of `KINDS`, and the capacity."""

    name: str
    y: float
    parts: list
    capacity: float | None

    @property
    def total(self):
        return sum(self.parts)

    @property
    def text(self):
        """How much is held, of how much."""
        of = f" of {size(self.capacity)}" if self.capacity else ""
        return size(self.total) + of

    def line(self, largest):
        """The capacity, if it is near enough to be drawn as a line."""
        near = self.capacity and self.capacity <= _NEAR * largest
        return self.capacity if near else None


@figure.styled
def plot_memory(memory, *, ax=None):
    """One row per device: bytes by kind, stacked; the capacity as a dark line.

    `memory` is what `memory(model, optimizer)` returns, or a dict of those by label:
    `plot_memory({"before": first, "after": second})` compares them.
    """
    groups = _groups(memory)
    rows, heads = _rows(groups)
    largest = max(row.total for row in rows)
    lines = [row.line(largest) for row in rows]
    right = max([largest, *filter(None, lines)]) or 1
    unit_bytes, unit = byte_unit(right)
    scale = 1 / unit_bytes
    ax = figure.axes(ax, 1.6 + (rows[-1].y + 1) * (0.46 if len(rows) <= 8 else 0.34))
    _memory_axes(ax, rows, heads, lined=any(lines))
    ax.set(xlim=(0, right * scale), xlabel=f"memory ({unit})")
    if not largest:
        ax.set_xticks([0])
    figure.legend(ax, kind_handles(zip(*(row.parts for row in rows), strict=True)))
    title, alt = _captions(groups)
    source = "; ".join(dict.fromkeys(memory.source for memory in groups.values()))
    figure.finish(ax, title, source=source, alt=alt, below=36)
    _ends(ax, rows, lines, scale=scale)
    for row in rows:
        _stack(ax, row, scale=scale)
    return ax


def _groups(memory):
    """`{label: Memory}` of what was given, after a check; no label for one alone."""
    groups = {"": memory} if isinstance(memory, Memory) else memory
    values = groups.values() if isinstance(groups, dict) else [groups]
    if not all(isinstance(value, Memory) for value in values):
        raise UsageError(
            f"cannot draw the memory of {type(memory).__name__}: expected what "
            "memory(model, optimizer) returns, or a dict of those by label."
        )
    groups = {str(label): value for label, value in groups.items() if value.held}
    if not groups:
        raise UsageError(
            "cannot draw memory: no device is in it. Move the model to a device of "
            "devices(n) first, then ask for its memory."
        )
    return groups


def _rows(groups):
    """All rows from top to bottom, and the heads of groups with the place of each.

    A group of the one device that all have is a row by its label, if that is short.
    """
    devices = {device for memory in groups.values() for device in memory.held}
    names = {label: textwrap.fill(label, 12) for label in groups}
    words = [line for name in names.values() for line in name.split("\n")]
    short = max(figure.text_width(word, 11) for word in words) <= _LABEL
    by_label = len(devices) == 1 and short and "" not in groups
    rows, heads, y = [], [], 0.0
    for label, memory in groups.items():
        if label and not by_label:
            heads.append((label, y))
            y += 0.6
        for device, held in memory.held.items():
            parts = [held.get(kind, 0) for kind in KINDS]
            name = names[label] if by_label else device
            rows.append(_Row(name, y, parts, memory.capacity.get(device)))
            y += 1
    return rows, heads


def _memory_axes(ax, rows, heads, *, lined):
    figure.rows(ax, [row.name for row in rows])
    ax.set_yticks([row.y for row in rows], [row.name for row in rows])
    # a line needs room for its word above the first row
    ax.set_ylim(rows[-1].y + 0.5, -0.85 if lined and not heads else -0.5)
    figure.grid(ax, "x")
    for label, y in heads:
        style = {"va": "center", "fontsize": 11, "fontweight": "bold"}
        ax.text(0, y, label, transform=ax.get_yaxis_transform(), **style)


def _ends(ax, rows, lines, *, scale):
    """Behind each bar, or its line of the capacity: how much of how much."""
    ends = [scale * max(row.total, line or 0) for row, line in zip(rows, lines)]
    _widen(ax, ends, [row.text for row in rows])
    style = {"textcoords": "offset points", "va": "center_baseline"}
    for row, end in zip(rows, ends, strict=True):
        ax.annotate(row.text, (end, row.y), xytext=(5, 0), **style)
    drawn = [(line * scale, row.y) for row, line in zip(rows, lines) if line]
    for x, y in drawn:
        line = {"color": DARK, "lw": 3, "zorder": 3, "label": "capacity"}
        ax.plot([x, x], [y - 0.4, y + 0.4], **line)
    if drawn:
        above = {"xytext": (0, 2), "textcoords": "offset points", "ha": "center"}
        ax.annotate("capacity", (drawn[0][0], drawn[0][1] - 0.42), **above)


def _widen(ax, ends, texts):
    """Let the axis grow by what the longest text needs behind its bar."""
    right = ax.get_xlim()[1]
    across = figure.points(ax)[0] * right
    need = max(
        end / right / max(0.3, 1 - (figure.text_width(text) + 12) / across)
        for end, text in zip(ends, texts, strict=True)
    )
    ax.set_xlim(0, right * max(need, 1))


def _stack(ax, row, *, scale):
    """The kinds of one device side by side, each with its bytes where they fit."""
    wide, left = figure.points(ax)[0], 0.0
    for kind, count in zip(KINDS, row.parts, strict=True):
        if not count:
            continue
        width, color = count * scale, MEMORY_COLORS[kind]
        # an edge parts neighbours, but would wipe out a thin bar
        edge = "white" if width * wide > 5 else color
        style = {"color": color, "edgecolor": edge, "linewidth": 0.8, "label": kind}
        ax.barh(row.y, width, 0.66, left=left, **style)
        if figure.text_width(size(count)) + 6 <= width * wide:
            place = {"ha": "center", "va": "center_baseline", "clip_on": True}
            middle = left + width / 2, row.y
            ax.text(*middle, size(count), color=text_color(color), **place)
        left += width


def kind_handles(bytes_by_kind):
    """Entries of a legend for the kinds, in the order of `KINDS`, that hold bytes."""
    return [
        Patch(facecolor=MEMORY_COLORS[kind], label=kind)
        for kind, counts in zip(KINDS, bytes_by_kind, strict=True)
        if any(counts)
    ]


# --- words


def _captions(groups):
    """Title and alt text of `{label: Memory}`: who holds how much, and of what kind."""
    parts = [
        f"{label} {device}: {in_words(held)}".lstrip()
        for label, memory in groups.items()
        for device, held in memory.held.items()
    ]
    title = _compared(groups) if len(groups) > 1 else _single(*groups.values())
    return title, "; ".join(parts)


def _single(memory):
    totals = {device: memory.total(device) for device in memory.held}
    most = max(totals, key=totals.get)
    if not totals[most]:
        return f"{listed(totals)} {'hold' if len(totals) > 1 else 'holds'} nothing"
    kind, share = largest_kind(memory.held[most])
    fact = f"on {most} the largest share is {kind}, {share}"
    capacity = memory.capacity.get(most)
    if capacity and totals[most] >= 0.8 * capacity:
        fact += f"; {_share(totals[most], capacity)} full"
    return f"{_holding(totals, most)}\n{fact}"


def _holding(totals, most):
    """`vgpu:0 holds 12.6 MB, vgpu:1 4.2 MB`, or the most and the rest."""
    texts = {d: size(total) if total else "nothing" for d, total in totals.items()}
    if len(texts) > 1 and len(set(texts.values())) == 1:
        return f"Each of {len(texts)} devices holds {texts[most]}"
    rest = [device for device in texts if device != most]
    head = f"{most} holds {texts[most]}"
    if len(rest) <= 2:
        return head + "".join(f", {device} {texts[device]}" for device in rest)
    return f"{head}, the other {len(rest)} hold {size_range([totals[d] for d in rest])}"


def size_range(counts):
    """`4.2 MB`, or `2 to 4.2 MB`."""
    low, high = size(min(counts)), size(max(counts))
    if low.split()[1] == high.split()[1] and low != high:
        low = low.split()[0]
    return high if low == high else f"{low} to {high}"


def _compared(groups):
    """The fullest device of each label, and the kind that changes most."""
    fullest = {
        label: max(map(memory.total, memory.held)) for label, memory in groups.items()
    }
    devices = {device for memory in groups.values() for device in memory.held}
    who = devices.pop() if len(devices) == 1 else "Fullest device"
    if len(fullest) <= 3:
        each = ", ".join(f"{size(most)} ({label})" for label, most in fullest.items())
    else:
        low, high = (pick(fullest, key=fullest.get) for pick in (min, max))
        each = f"{size(fullest[low])} ({low}) to {size(fullest[high])} ({high})"
    return f"{who}: {each}\n{_change(*list(groups.values())[:: len(groups) - 1])}"


def _change(first, last):
    """The kind that differs most between two memories, summed over devices."""
    sums = [
        {k: sum(held.get(k, 0) for held in memory.held.values()) for k in KINDS}
        for memory in (first, last)
    ]
    kind = max(KINDS, key=lambda k: abs(sums[1][k] - sums[0][k]))
    before, after = (size(total[kind]) for total in sums)
    if sums[0] == sums[1]:
        return "in all as much of every kind"
    return f"the largest change: {kind}, in all {before}, then {after}"


def _share(part, whole):
    return f"{100 * part / whole:.0f} %"


def in_words(held):
    """`parameters 1 kB, activations 500 B`."""
    return ", ".join(f"{k} {size(held[k])}" for k in KINDS if held.get(k)) or "nothing"


def largest_kind(held):
    """`activations` and `61 %`: the kind that takes the largest share, and that."""
    kind = max(KINDS, key=lambda k: held.get(k, 0))
    return kind, _share(held.get(kind, 0), sum(held.values()))
