"""The figures of sharding: a row per rank of samples, a panel per rank of a tensor."""

import math

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Affine2D

from course_lib.colors import DARK, edge, rank_color, text_color
from course_lib.errors import UsageError
from course_lib.plots import figure, tensor_parts
from course_lib.text import extent, listed, many, rank_name, rank_noun

_FEW = 100  # samples up to which cells are drawn apart
_LINED = 32  # cells of a tensor in a row or column up to which lines part them
_GREY = "#e0e0e0"
_CENTRED = {"ha": "center", "va": "center_baseline"}


@figure.styled
def plot_sharding(held, placements=None, world_size=None, *, num_samples=None, ax=None):
    """Which rank holds which sample, or which slice of a tensor.

    `plot_sharding(indices_by_rank)`: one list of indices per rank, or a dict by rank;
    `num_samples` adds samples at the end that no rank holds.
    `plot_sharding(shape, placements, world_size)`: a shape of 1 or 2 dimensions, with
    `Shard(0)` and 4, or with `(Shard(0), Replicate())` and `(2, 2)`.
    """
    if placements is None and world_size is None:
        counts, names = tensor_parts.count_samples(held, num_samples)
        return _plot_samples(counts, names, ax=ax)
    if placements is None or world_size is None:
        raise UsageError(
            "cannot draw a tensor's sharding: it takes a shape, placements and a "
            "world_size, such as plot_sharding((8, 4), Shard(0), 4)."
        )
    tensor = tensor_parts.checked(held, placements, world_size)
    return _plot_tensor(tensor, ax=ax)


# --- samples


def _plot_samples(counts, ranks, *, ax):
    samples = counts.shape[1]
    ax = figure.axes(ax, 1.4 + len(ranks) * (0.42 if len(ranks) <= 8 else 0.3))
    figure.rows(ax, [rank_name(rank) for rank in ranks])
    ax.set(xlabel="sample", xlim=(-0.5, samples - 0.5))
    whole = {"integer": True, "min_n_ticks": 1, "steps": [1, 2, 3, 5, 10]}
    ax.xaxis.set_major_locator(MaxNLocator(12 if samples <= _FEW else 8, **whole))
    ax.xaxis.set_major_formatter(figure.NUMBERS)
    colors = [rank_color(rank) for rank in ranks]
    for row, color in enumerate(colors):
        _fill(ax, counts, row=row, color=color)
    figure.legend(ax, _mark(ax, counts, rank_noun(ranks[0])))
    title, alt = _sample_captions(counts, ranks)
    figure.finish(ax, title, source="computed from the indices", alt=alt, below=36)
    _number(ax, counts, colors)
    return ax


def _fill(ax, counts, *, row, color):
    """One pixel per sample: coloured where held, grey where no rank holds it."""
    pixels = np.full((1, counts.shape[1], 3), 255, np.uint8)
    pixels[0, counts.sum(0) == 0] = list(bytes.fromhex(_GREY[1:]))
    pixels[0, counts[row] > 0] = list(bytes.fromhex(color[1:]))
    way = "nearest" if counts.shape[1] <= _FEW else "antialiased"
    place = (-0.5, counts.shape[1] - 0.5, row + 0.43, row - 0.43)
    style = {"interpolation": way, "interpolation_stage": "rgba", "aspect": "auto"}
    ax.imshow(pixels, extent=place, label=f"row {row}", **style)
    if counts.shape[1] <= _FEW:
        edges = np.arange(1, counts.shape[1]) - 0.5
        ax.vlines(edges, row - 0.45, row + 0.45, color="white", linewidth=1)
        for sample in np.flatnonzero(counts[row]):
            corner, style = (sample - 0.5, row - 0.43), {"fill": False, "lw": 0.8}
            style |= {"ec": edge(color), "clip_on": False, "zorder": 2.5}
            ax.add_patch(Rectangle(corner, 1, 0.86, **style))


def _mark(ax, counts, noun):
    """Mark samples held more than once or by no rank; the handles of the legend."""
    times = counts.sum(0)
    handles = []
    for marked, mark, label in (
        (times > 1, "v", "held more than once"),
        (times == 0, "x", f"held by no {noun}"),
    ):
        x = np.flatnonzero(marked)
        if x.size:
            ax.set_ylim(top=-1)
            style = {"color": "black", "linestyle": "", "markersize": 7}
            y = np.full(x.shape, -0.75)
            handles += ax.plot(x, y, marker=mark, label=label, **style)
    return handles


def _number(ax, counts, colors):
    """Write its number into every cell, if the widest number fits."""
    samples = counts.shape[1]
    room = figure.points(ax)[0]
    if samples > _FEW or figure.text_width(str(samples - 1)) + 1 > room:
        return
    for row, sample in np.argwhere(counts):
        color = text_color(colors[row])
        ax.text(sample, row, str(sample), color=color, **_CENTRED)


def _sample_captions(counts, names):
    """Title and alt text: who holds how many, what is doubled, what is missing."""
    ranks, samples = counts.shape
    each = extent(counts.sum(1).tolist())
    word = rank_noun(names[0])
    over = f"{many(samples, 'sample')} over {many(ranks, word)}"
    title = f"{over}: each {word} holds {each}"
    times = counts.sum(0)
    if ranks > 1 and counts.all():
        whole = f"all {ranks} {word}s hold all {samples:,} samples"
        title = f"Nothing is sharded: {whole}"
    elif (times > 1).any():
        title += f"\n{_which(times > 1)} held more than once"
    if (times == 0).any():
        title += f"\n{_which(times == 0)} held by no {word}"
    sizes = zip(names, counts.sum(1), strict=True)
    return title, ", ".join(f"{rank_name(r)} holds {n:,}" for r, n in sizes)


def _which(marked):
    """`sample 3 is`, `samples 0 and 1 are`, or `12 samples are`."""
    numbers = np.flatnonzero(marked).tolist()
    if len(numbers) > 3:
        return f"{len(numbers):,} samples are"
    some = listed(numbers)
    return f"sample {some} is" if len(numbers) == 1 else f"samples {some} are"


# --- a tensor


def _plot_tensor(tensor, *, ax):
    """A panel per rank, laid out as the mesh; of a tensor of one dimension a strip."""
    shape, placements, mesh = tensor
    held = tensor_parts.slices(*tensor)
    title, alt = _tensor_captions(tensor, held)
    # inches of one panel, and from one to the next
    across = min(mesh[-1], 4 * len(mesh)) if len(shape) == 2 else 1
    room = figure.ACROSS / across
    size = (min(room - 0.2, 1.7), 1.2) if len(shape) == 2 else (4.4, 0.3)
    down = size[1] + 0.62
    height = math.ceil(len(held) / across) * down
    ax = figure.canvas(ax, height, margins=0.5 + 0.2 * len(figure.wrap(title)))
    hatch = "//" if any(tensor_parts.kind(p) == "Partial" for p in placements) else None
    for rank, parts in enumerate(held):
        row, column = divmod(rank, across)
        corner = np.array((column * room, row * down + 0.24))
        _tile(ax, shape, parts, rank=rank, box=(corner, size), hatch=hatch)
        above = _coordinates(rank, mesh, width=size[0])
        ax.text(*corner - (0, 0.05), above, va="bottom", fontsize=11)
        below = _indices(shape, parts)
        ax.text(*corner + (0, size[1] + 0.05), below, va="top", fontsize=11)
    source = "computed by torch.chunk's rule, as DTensor cuts"
    return figure.finish(ax, title, source=source, alt=alt, below=6)


def _tile(ax, shape, parts, *, rank, box, hatch):
    """The whole tensor in grey, the rank's own slice in its colour, cell by cell."""
    rows, columns = (1, *shape)[-2:]
    (top, bottom), (left, right) = ((0, 1), *parts)[-2:]
    corner, (width, height) = box
    cells = Affine2D().scale(width / columns, height / rows).translate(*corner)
    cells += ax.transData
    whole = {"facecolor": _GREY, "label": "tensor"}
    ax.add_patch(Rectangle((0, 0), columns, rows, transform=cells, **whole))
    slice_ = (left, top), right - left, bottom - top
    color = {"facecolor": rank_color(rank), "hatch": hatch, "linewidth": 0}
    ax.add_patch(Rectangle(*slice_, transform=cells, label=f"rank {rank}", **color))
    white = {"color": "white", "linewidth": 1, "transform": cells}
    if columns <= _LINED:
        ax.vlines(range(1, columns), 0, rows, **white)
    if rows <= _LINED:
        ax.hlines(range(1, rows), 0, columns, **white)
    # a dark edge, for yellow on grey is hard to see
    edge = {"fill": False, "edgecolor": DARK, "zorder": 3, "label": "edge"}
    ax.add_patch(Rectangle(*slice_, transform=cells, **edge))


def _coordinates(rank, mesh, *, width):
    """`rank 2 (1, 0)` on a mesh of two dimensions, if the panel is as wide."""
    if len(mesh) == 1:
        return f"rank {rank}"
    place = ", ".join(map(str, np.unravel_index(rank, mesh)))
    name = f"rank {rank} ({place})"
    return name if figure.text_width(name, 11) < width * 72 else f"rank {rank}"


def _indices(shape, parts):
    """Indices in Python's way, `[0:2, :]`, or `nothing`."""
    if any(start == stop for start, stop in parts):
        return "nothing"
    spans = zip(shape, parts, strict=True)
    texts = (":" if part == (0, n) else f"{part[0]}:{part[1]}" for n, part in spans)
    return f"[{', '.join(texts)}]"


def _tensor_captions(tensor, held):
    """Title and alt text: the short form, how much each rank holds, how it adds up."""
    shape, placements, mesh = tensor
    total = math.prod(shape)
    sizes = [math.prod(stop - start for start, stop in parts) for parts in held]
    much = "all" if min(sizes) == total else f"{extent(sizes)} of"
    over = " × ".join(map(str, mesh)) + " mesh"
    over = many(mesh[0], "rank") if len(mesh) == 1 else f"a {over}"
    short = tensor_parts.short(shape, placements)
    title = f"{short} over {over}: each rank holds {much} {total:,} values"
    copies = dict.fromkeys(("Partial", "Replicate", "Shard"), 1)
    for placement, ranks in zip(placements, mesh, strict=True):
        copies[tensor_parts.kind(placement)] *= ranks
    if copies["Replicate"] > 1 and len(mesh) > 1:
        title += f"\neach part is held by {copies['Replicate']} ranks"
    if copies["Partial"] > 1:
        title += f"\neach is a partial sum: add those of {copies['Partial']} ranks"
    parts = (_indices(shape, part) for part in held)
    return title, ", ".join(f"rank {r} holds {part}" for r, part in enumerate(parts))
