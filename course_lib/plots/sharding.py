"""The figure of sharding: samples, a row per rank; or the parts of a tensor."""

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from course_lib.accelerators.dtensors import DTensorPart
from course_lib.colors import edge, rank_color, text_color
from course_lib.errors import UsageError
from course_lib.plots import figure, placements
from course_lib.text import extent, listed, many, rank_name, rank_noun

_FEW = 100  # samples up to which cells are drawn apart
_MOST = 2_000_000  # samples


@figure.styled
def plot_sharding(held_by_rank, *, num_samples=None, ax=None):
    """Draw which rank holds which sample: one list of indices per rank, or a dict.

    `num_samples` adds samples at the end that no rank holds. If what the ranks hold are
    DTensors that they returned, draw which rank holds which part of the tensor.
    """
    if not hasattr(held_by_rank, "items"):
        held_by_rank = dict(enumerate(held_by_rank))
    if any(isinstance(held, DTensorPart) for held in held_by_rank.values()):
        if num_samples is not None:
            raise UsageError("num_samples is for lists of samples: leave it out here.")
        return placements.plot_parts(held_by_rank, ax=ax)
    counts, ranks = _count(held_by_rank, num_samples)
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


def _count(indices_by_rank, num_samples):
    """How often each rank holds each sample, i64[ranks, samples], and the ranks."""
    lists = {rank: _indices(rank, given) for rank, given in indices_by_rank.items()}
    needed = max((int(i.max()) + 1 for i in lists.values() if i.size), default=0)
    samples = needed if num_samples is None else num_samples
    if samples < needed:
        raise UsageError(
            f"cannot draw the sharding of {samples} samples: a rank holds sample "
            f"{needed - 1}. Give num_samples={needed} or more."
        )
    if not 0 < samples <= _MOST:
        raise UsageError(
            f"cannot draw the sharding of {samples:,} samples over {len(lists)} ranks: "
            f"expected 1 to {_MOST:,}. Pass one list of indices per rank."
        )
    counts = [np.bincount(numbers, minlength=samples) for numbers in lists.values()]
    return np.array(counts), list(lists)


def _indices(rank, given):
    """Return the sample numbers of one rank as an array of integers."""
    if isinstance(given, dict) and any(
        isinstance(value, DTensorPart) for value in given.values()
    ):
        raise UsageError(
            f"cannot draw a whole state: {rank_name(rank)} holds a dict with parts of"
            f" DTensors: choose one, as `[state[{next(iter(given))!r}] for state in"
            " results]`."
        )
    try:
        numbers = np.asarray(given if hasattr(given, "__array__") else list(given))
    except TypeError:
        numbers = np.asarray(given)
    if numbers.size == 0:
        return np.zeros(0, np.int64)
    if numbers.ndim == 1 and numbers.dtype.kind in "iu" and numbers.min() >= 0:
        return numbers.astype(np.int64)
    wrong = numbers.min() if numbers.ndim == 1 and numbers.dtype.kind == "i" else given
    raise UsageError(
        f"cannot draw the samples of rank {rank}: found {wrong!s:.60}, expected "
        "a list of sample numbers, each 0 or more."
    )


def _fill(ax, counts, *, row, color):
    """One pixel per sample: coloured where held, grey where no rank holds it."""
    pixels = np.full((1, counts.shape[1], 3), 255, np.uint8)
    pixels[0, counts.sum(0) == 0] = list(bytes.fromhex(figure.GREY[1:]))
    pixels[0, counts[row] > 0] = list(bytes.fromhex(color[1:]))
    way = "nearest" if counts.shape[1] <= _FEW else "antialiased"
    place = (-0.5, counts.shape[1] - 0.5, row + 0.43, row - 0.43)
    style = {"interpolation": way, "interpolation_stage": "rgba", "aspect": "auto"}
    ax.imshow(pixels, extent=place, label=f"row {row}", **style)
    if counts.shape[1] <= _FEW:
        edges = np.arange(1, counts.shape[1]) - 0.5
        ax.vlines(edges, row - 0.45, row + 0.45, color="white", linewidth=1)
        for sample in np.flatnonzero(counts[row]):
            frame = Rectangle((sample - 0.5, row - 0.43), 1, 0.86, fill=False, lw=0.8)
            frame.set(ec=edge(color), clip_on=False, zorder=2.5)
            ax.add_patch(frame)


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
        ax.text(sample, row, str(sample), color=color, **figure.CENTRED)


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
