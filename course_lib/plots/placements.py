"""The figure of a DTensor: the tensor as a rectangle, each part with its ranks."""

import math
from itertools import cycle, product

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, MaxNLocator

from course_lib.accelerators.dtensors import DTensorPart
from course_lib.colors import DARK, rank_color, text_color
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.text import extent, listed, many, rank_name, ranks_named

_STRIPE = 18  # points
_LINE = 14  # points of height that a line of text needs
_WORDS = {"avg": "mean", "max": "maximum", "min": "minimum"}  # of what is partial


def plot_parts(parts, *, ax=None):
    """Draw which rank holds which part of a DTensor, by each rank's `DTensorPart`."""
    _check(parts)
    first = next(iter(parts.values()))
    dims = _drawn(parts)
    sizes = [first.shape[dim] for dim in dims]
    groups = _groups(parts, dims)
    ax = figure.axes(ax, 1.5 + _height(groups, _plane(sizes)))
    boxes = [
        (box, ranks)
        for spans, ranks in groups.items()
        for box in product(*_plane(spans, ((0, 1),)))
    ]
    _frame(ax, boxes, _plane(sizes), names=_names(first, dims))
    lines = [*_title(parts, dims, groups)]
    if sum(map(_area, boxes)) < math.prod(sizes):
        ax.set_facecolor(figure.GREY)
        lines.append("grey: held by none of these ranks")
    source = f"measured: {first.whole}, {first.layout}"
    figure.finish(ax, "\n".join(lines), source=source, alt=_alt(parts), below=36)
    room = figure.points(ax)
    for box, ranks in boxes:
        _fill(ax, box, ranks, room=room)
        _label(ax, box, ranks, room=room, part=parts[ranks[0]])
    return ax


def _check(parts):
    """Refuse what are no parts of one tensor that a plane can show."""
    start = "cannot draw the placements of a DTensor"
    (one, first), *_ = parts.items()
    for rank, part in parts.items():
        name = rank_name(rank)
        if not isinstance(part, DTensorPart):
            raise UsageError(
                f"{start}: {name} holds {type(part).__name__}, expected its part of the"
                " tensor. Pass the parts of those ranks that hold one, as a dict."
            )
        if (part.shape, part.placements) != (first.shape, first.placements):
            raise UsageError(
                f"{start}: {name} holds a part of {part.whole}, {part.layout},"
                f" and {rank_name(one)} of {first.whole}, {first.layout}: expected"
                " parts of one tensor."
            )
        dealt = [sum(stop - start for start, stop in spans) for spans in part.spans]
        if all(dealt) and dealt != [*part.local.shape]:
            raise UsageError(
                f"{start}: {name} holds {[*part.local.shape]}, by {part.layout} it"
                f" should be {dealt} of {[*part.shape]}."
            )
    if not any(all(part.spans) for part in parts.values()):
        raise UsageError(f"{start}: of {first.whole} no rank holds a part.")


def _drawn(parts):
    """The dimensions that are drawn: those that are sharded, and the first others."""
    first = next(iter(parts.values()))
    dims = range(len(first.shape))
    cut = _cut(parts)
    if len(cut) > 2:
        raise UsageError(
            f"cannot draw the placements of {first.whole}: it is sharded along"
            f" dimensions {listed(cut)}, and a figure has two."
        )
    return sorted([*cut, *(dim for dim in dims if dim not in cut)][:2])


def _cut(parts):
    """The dimensions along which a rank holds some, and not all."""
    holding = [part for part in parts.values() if all(part.spans)]
    return [
        dim
        for dim, size in enumerate(holding[0].shape)
        if any(part.spans[dim] != ((0, size),) for part in holding)
    ]


def _groups(parts, dims):
    """The ranks that hold each part, by its spans; without ranks that hold nothing."""
    groups = {}
    for rank, part in parts.items():
        spans = tuple(part.spans[dim] for dim in dims)
        if all(spans):
            groups.setdefault(spans, []).append(rank)
    return groups


def _plane(values, one=1):
    """Two values, for rows and columns, of as many as there are dimensions."""
    return [one] * (2 - len(values)) + [*values]


def _height(groups, sizes):
    """Inches: nearly to scale, with a line of text for each part."""
    rows = {span for spans in groups for span in _plane(spans, ((0, 1),))[0]}
    most = 0.6 if sizes[0] == 1 else 5.2 * sizes[0] / sizes[1]
    return max(min(most, 3.2), 0.6, min(0.26 * len(rows), 5))


def _names(part, dims):
    """What the axes of y and x are called."""
    if len(part.shape) > 2:
        return [f"dimension {dim}" for dim in dims]
    return ["row", "column"] if len(dims) == 2 else ["", "number"]


def _frame(ax, boxes, sizes, *, names):
    ax.set(xlim=(0, sizes[1]), ylim=(sizes[0], 0), xlabel=names[1], ylabel=names[0])
    ax.spines[:].set_color(DARK)
    for axis, size, place in ((ax.yaxis, sizes[0], 0), (ax.xaxis, sizes[1], 1)):
        bounds = sorted({0, size} | {end for box, _ in boxes for end in box[place]})
        far = min(np.diff(bounds)) > size / 24
        axis.set_major_locator(
            FixedLocator(bounds) if far else MaxNLocator(6, integer=True)
        )
        axis.set_major_formatter(figure.NUMBERS)
    if not names[0]:
        ax.set_yticks([])


def _area(part):
    (top, bottom), (left, right) = part[0]
    return (bottom - top) * (right - left)


def _fill(ax, box, ranks, *, room):
    """Fill a part in the colour of its rank, or in stripes of all its ranks."""
    (top, bottom), (left, right) = box
    colors = [rank_color(rank) for rank in ranks]
    place = (left, top), right - left, bottom - top
    frame = ax.add_patch(Rectangle(*place, fc=colors[0], lw=0))
    ax.add_patch(Rectangle(*place, fill=False, ec="white", lw=1.5, zorder=2))
    if len(ranks) == 1:
        return
    wide, lean = _STRIPE / room[0], (bottom - top) * room[1] / room[0]
    starts = np.arange(left - lean, right, wide)
    stripes = [
        [(x, bottom), (x + wide, bottom), (x + wide + lean, top), (x + lean, top)]
        for x in starts
    ]
    shades = [color for color, _ in zip(cycle(colors), starts)]
    several = PolyCollection(stripes, facecolor=shades, zorder=1.5)
    # this clips at the axes, so what is clipped at the part comes after it
    ax.add_collection(several, autolim=False).set_clip_path(frame)


def _label(ax, box, ranks, *, room, part):
    """Write into a part its ranks and its shape, as far as there is room."""
    (top, bottom), (left, right) = box
    wide, high = (right - left) * room[0] - 8, (bottom - top) * room[1]
    name, size = _named(ranks), " × ".join(map(str, part.local.shape)) or "1 number"
    texts = [name, name.removeprefix("ranks ").removeprefix("rank ")]
    if max(map(len, part.spans), default=1) == 1:  # else this is not all of it
        texts = [f"{name}\n{size}", f"{name}: {size}", *texts]
    for text in texts:
        lines = text.split("\n")
        need = _LINE if len(lines) == 1 else 2.5 * _LINE
        if max(map(figure.text_width, lines)) < wide and need < high:
            break
    else:
        return
    style = {"ha": "center", "va": "center", "zorder": 3}
    if len(ranks) == 1:
        style["color"] = text_color(rank_color(ranks[0]))
    else:
        style["bbox"] = {"fc": "white", "ec": "none", "pad": 2.5}
    ax.text((left + right) / 2, (top + bottom) / 2, text, **style)


def _named(ranks):
    """`ranks 0, 2`; other names than numbers in a row."""
    if all(isinstance(rank, int) for rank in ranks):
        return ranks_named(ranks)
    return listed(map(rank_name, ranks))


def _title(parts, dims, groups):
    """The lines of the title: what each rank holds, and what else there is to say."""
    first, cut = next(iter(parts.values())), _cut(parts)
    holding = [rank for ranks in groups.values() for rank in ranks]
    partial = next((text for text in first.placements if "Partial" in text), "")
    share = _share([parts[rank] for rank in holding], cut)
    statement = _who(len(holding), len(parts))
    statement += f" a partial result of {share}" if partial else f" {share}"
    empty = [rank for rank in parts if rank not in holding]
    if not (cut or partial or empty) and len(parts) > 1:
        statement = f"Nothing is sharded: {statement.lower()}"
    yield statement
    if empty:
        yield f"{_named(empty)} hold{'s' if len(empty) == 1 else ''} nothing"
    several = [len(ranks) for ranks in groups.values()]
    if partial:
        kind = partial.partition("(")[2].rstrip(")")
        yield f"{partial}: the tensor is the {_WORDS.get(kind, kind)} of these"
    elif cut and max(several) > 1:
        yield f"each part is held by {extent(several)} ranks"
    if len(first.shape) > 2:
        yield f"drawn: dimensions {listed(dims)} of {first.whole}"


def _who(holding, ranks):
    if holding < ranks:
        return f"{holding} of {many(ranks, 'rank')} hold{'s' if holding == 1 else ''}"
    return f"Each of {ranks} ranks holds" if ranks > 1 else "One rank holds"


def _share(holding, cut):
    """`48 of 192 rows`, `all 12 × 16 numbers`."""
    shape = holding[0].shape
    if not cut:
        return f"all {' × '.join(map(str, shape))} numbers" if shape else "the number"
    counts = [extent([part.local.shape[dim] for part in holding]) for dim in cut]
    return " and ".join(
        f"{count} of {shape[dim]:,} {_things(len(shape), dim)}"
        for count, dim in zip(counts, cut)
    )


def _things(dims, dim):
    """What lies along a dimension, of so many."""
    if dims > 2:
        return f"indices of dimension {dim}"
    return ("rows", "columns")[dim] if dims == 2 else "numbers"


def _alt(parts):
    """What each rank holds: `rank 0 holds rows 0 to 47; rank 1 holds nothing`."""
    cut = _cut(parts)
    words = (f"{rank_name(rank)} holds {_where(p, cut)}" for rank, p in parts.items())
    return "; ".join(words)


def _where(part, cut):
    if not all(part.spans):
        return "nothing"
    words = []
    for dim in cut:
        noun, _, rest = _things(len(part.shape), dim).partition(" ")
        ends = (f"{start} to {stop - 1}" for start, stop in part.spans[dim])
        words.append(f"{noun} {listed(ends)} {rest}".rstrip())
    return " and ".join(words) or "all"
