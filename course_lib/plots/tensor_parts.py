"""Who holds what: the samples of a data set, the slices of a tensor, per rank."""

import math

import numpy as np

from course_lib.errors import UsageError

_MOST_SAMPLES, _MOST_RANKS = 2_000_000, 64


def count_samples(indices_by_rank, num_samples=None):
    """How often each rank holds each sample, i64[ranks, samples], and the ranks."""
    if not hasattr(indices_by_rank, "items"):
        indices_by_rank = dict(enumerate(indices_by_rank))
    lists = {rank: _indices(rank, given) for rank, given in indices_by_rank.items()}
    needed = max((int(i.max()) + 1 for i in lists.values() if i.size), default=0)
    samples = needed if num_samples is None else num_samples
    if samples < needed:
        raise UsageError(
            f"cannot draw the sharding of {samples} samples: a rank holds sample "
            f"{needed - 1}. Give num_samples={needed} or more."
        )
    if not 0 < samples <= _MOST_SAMPLES:
        raise UsageError(
            f"cannot draw the sharding of {samples:,} samples over {len(lists)} ranks: "
            f"expected 1 to {_MOST_SAMPLES:,}. Pass one list of indices per rank."
        )
    counts = [np.bincount(numbers, minlength=samples) for numbers in lists.values()]
    return np.array(counts), list(lists)


def _indices(rank, given):
    """The sample numbers of one rank as an array of integers."""
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


def slices(shape, placements, world_size):
    """What each rank holds, rank 0 first: one (start, stop) per dimension.

    Uneven shards follow `torch.chunk`, as DTensor's do: 10 over 4 is 3, 3, 3, 1.
    https://docs.pytorch.org/docs/stable/distributed.tensor.html
    """
    shape, placements, mesh = checked(shape, placements, world_size)
    cuts = [
        tuple(zip(placements, mesh, place, strict=True)) for place in np.ndindex(mesh)
    ]
    return [_local(shape, cut) for cut in cuts]


def _local(shape, cuts):
    """The slice left by cuts (placement, chunks, number of the chunk), in turn."""
    parts = [(0, size) for size in shape]
    for placement, chunks, chunk in cuts:
        if kind(placement) == "Shard":
            start, stop = parts[placement.dim]
            step = math.ceil((stop - start) / chunks)
            parts[placement.dim] = (
                min(stop, start + step * chunk),
                min(stop, start + step * (chunk + 1)),
            )
    return tuple(parts)


def kind(placement):
    """`Shard`, `Replicate` or `Partial`, told by name so that torch stays unloaded."""
    return type(placement).__name__


def checked(shape, placements, world_size):
    """The three arguments as tuples, after a check that they fit together."""
    shape, mesh = tuple(shape), world_size
    mesh = (mesh,) if hasattr(mesh, "__index__") else tuple(mesh)
    several = isinstance(placements, (tuple, list))
    placements = tuple(placements) if several else (placements,)
    task = f"cannot draw a tensor {list(shape)} on a mesh {mesh}"
    if len(shape) not in (1, 2) or min(shape) < 1:
        raise UsageError(f"{task}: expected 1 or 2 dimensions, each 1 or more.")
    if len(mesh) not in (1, 2) or min(mesh) < 1 or math.prod(mesh) > _MOST_RANKS:
        raise UsageError(
            f"{task}: expected a world_size of 1 to {_MOST_RANKS} ranks, "
            "such as 4 or (2, 2)."
        )
    if len(placements) != len(mesh):
        raise UsageError(
            f"{task}: found {len(placements)} placements for {len(mesh)} mesh "
            "dimensions. Give one placement per mesh dimension."
        )
    for placement in placements:
        if kind(placement) not in ("Shard", "Replicate", "Partial"):
            raise UsageError(
                f"{task}: found {placement!r}, expected Shard(dim), Replicate() or "
                "Partial() from torch.distributed.tensor."
            )
        if kind(placement) == "Shard" and not -len(shape) <= placement.dim < len(shape):
            raise UsageError(
                f"{task}: {placement!r} names dimension {placement.dim}, the tensor "
                f"has {len(shape)}. Take a dimension of 0 to {len(shape) - 1}."
            )
    return shape, placements, mesh


def short(shape, placements):
    """The short form of a sharded tensor, such as `[8@dp, 4]`."""
    sizes = [str(size) for size in shape]
    for placement, name in zip(placements, ("dp", "tp"), strict=False):
        if kind(placement) == "Shard":
            sizes[placement.dim] += f"@{name}"
    return f"[{', '.join(sizes)}]"
