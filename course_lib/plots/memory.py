"""The figure of memory: what fills each device."""

from course_lib.accelerators.memory import KINDS, Memory
from course_lib.colors import DARK, MEMORY_COLORS, edge, text_color
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.text import byte_unit, listed, size

_NEAR = 3  # a capacity up to so many times the largest bar is drawn as a line


@figure.styled
def plot_memory(memory, *, ax=None):
    """Draw one row per device: bytes by kind, stacked; the capacity as a dark line.

    `memory` is what `memory(model, optimizer)` returns.
    """
    _check(memory)
    totals = [memory.total(device) for device in memory.held]
    lines = _lines(memory, max(totals))
    right = max([*totals, *lines.values()]) or 1
    unit_bytes, unit = byte_unit(right)
    scale = 1 / unit_bytes
    rows = len(totals)
    ax = figure.axes(ax, 1.6 + rows * (0.46 if rows <= 8 else 0.34))
    figure.rows(ax, list(memory.held))
    if lines:  # a line needs room for its word above the first row
        ax.set_ylim(top=-0.85)
    figure.grid(ax, "x")
    ax.set(xlim=(0, right * scale), xlabel=f"memory ({unit})")
    if not any(totals):
        ax.set_xticks([0])
    parts = list(map(_by_kind, memory.held.values()))
    figure.legend(ax, kind_handles(zip(*parts, strict=True)))
    alt = "; ".join(f"{d}: {in_words(held)}" for d, held in memory.held.items())
    figure.finish(ax, _title(memory), source=memory.source, alt=alt, below=36)
    _ends(ax, memory, lines, scale=scale)
    for row, counts in enumerate(parts):
        _stack(ax, row, counts, scale=scale)
    return ax


def _check(memory):
    if not isinstance(memory, Memory):
        raise UsageError(
            f"cannot draw the memory of {type(memory).__name__}: expected what "
            "memory(model, optimizer) returns."
        )
    if not memory.held:
        raise UsageError(
            "cannot draw memory: no device is in it. Move the model to a device of "
            "devices(n) first, then ask for its memory."
        )


def _by_kind(held):
    return [held.get(kind, 0) for kind in KINDS]


def _lines(memory, largest):
    """`{row: capacity}` of those near enough to the largest bar to be drawn."""
    capacities = enumerate(memory.capacity[device] for device in memory.held)
    return {row: count for row, count in capacities if count <= _NEAR * largest}


def _ends(ax, memory, lines, *, scale):
    """Behind each bar, or its line of the capacity: how much of how much."""
    texts, ends = [], []
    for row, device in enumerate(memory.held):
        total, capacity = memory.total(device), memory.capacity[device]
        texts.append(f"{size(total)} of {size(capacity)}")
        ends.append(scale * max(total, lines.get(row, 0)))
    _widen(ax, ends, texts)
    style = {"textcoords": "offset points", "va": "center_baseline"}
    for row, (text, end) in enumerate(zip(texts, ends, strict=True)):
        ax.annotate(text, (end, row), xytext=(5, 0), **style)
    for row, capacity in lines.items():
        line = {"color": DARK, "lw": 3, "zorder": 3, "label": "capacity"}
        ax.plot([capacity * scale] * 2, [row - 0.4, row + 0.4], **line)
    if lines:
        row, capacity = next(iter(lines.items()))
        above = {"xytext": (0, 2), "textcoords": "offset points", "ha": "center"}
        ax.annotate("capacity", (capacity * scale, row - 0.42), **above)


def _widen(ax, ends, texts):
    """Let the axis grow by what the longest text needs behind its bar."""
    right = ax.get_xlim()[1]
    across = figure.points(ax)[0] * right
    need = max(
        end / right / max(0.3, 1 - (figure.text_width(text) + 12) / across)
        for end, text in zip(ends, texts, strict=True)
    )
    ax.set_xlim(0, right * max(need, 1))


def _stack(ax, row, counts, *, scale):
    """Draw the kinds of one device side by side, each with its bytes where they fit."""
    wide, left = figure.points(ax)[0], 0.0
    for kind, count in zip(KINDS, counts, strict=True):
        if not count:
            continue
        width, color = count * scale, MEMORY_COLORS[kind]
        # an edge parts neighbours, but would wipe out a thin bar
        outline = edge(color) if width * wide > 5 else color
        style = {"color": color, "edgecolor": outline, "linewidth": 0.8, "label": kind}
        ax.barh(row, width, 0.66, left=left, **style)
        if figure.text_width(size(count)) + 6 <= width * wide:
            middle = left + width / 2, row
            style = figure.CENTRED | {"clip_on": True, "color": text_color(color)}
            ax.text(*middle, size(count), **style)
        left += width


def kind_handles(bytes_by_kind):
    """Return entries of a legend for those of `KINDS` that hold bytes."""
    pairs = zip(KINDS, bytes_by_kind, strict=True)
    return figure.patches(MEMORY_COLORS, [kind for kind, row in pairs if any(row)])


# --- words


def _title(memory):
    """Who holds how much, and of what kind the fullest device holds most."""
    totals = {device: memory.total(device) for device in memory.held}
    most = max(totals, key=totals.__getitem__)
    if not totals[most]:
        return f"{listed(totals)} {'hold' if len(totals) > 1 else 'holds'} nothing"
    kind, share = largest_kind(memory.held[most])
    fact = f"on {most} the largest share is {kind}, {share}"
    capacity = memory.capacity[most]
    if totals[most] >= 0.8 * capacity:
        fact += f"; {_share(totals[most], capacity)} full"
    return f"{_holding(totals, most)}\n{fact}"


def _holding(totals, most):
    """`vgpu:0 holds 12.6 MB, vgpu:1 4.2 MB`, or the most and the rest."""
    head = f"{most} holds {size(totals[most])}"
    rest = {device: total for device, total in totals.items() if device != most}
    if len(rest) > 2:
        return f"{head}, the other {len(rest)} hold {_size_range(rest.values())}"
    texts = (f"{d} {size(total) if total else 'nothing'}" for d, total in rest.items())
    return ", ".join([head, *texts])


def _size_range(counts):
    """`4.2 MB`, or `2 MB to 4.2 MB`."""
    return " to ".join(dict.fromkeys([size(min(counts)), size(max(counts))]))


def _share(part, whole):
    return f"{100 * part / whole:.0f} %"


def in_words(held):
    """Say bytes by kind: `parameters 1 kB, activations 500 B`."""
    return ", ".join(f"{k} {size(held[k])}" for k in KINDS if held.get(k)) or "nothing"


def largest_kind(held):
    """Return the kind with the largest share, and that: `activations`, `61 %`."""
    kind = max(KINDS, key=lambda k: held.get(k, 0))
    return kind, _share(held.get(kind, 0), sum(held.values()))
