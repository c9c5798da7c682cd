"""What mistakes in exercise 6.3 give: norms of sums, of parts, of other gradients.

Each function gives pairs of a hint and a noise scale, or those of all ranks.
"""

import torch

_FIRST_LAYER = 64 * 32 + 32  # the bucket that is ready last
_LAST_BIAS = 10


def sums(n):
    """What a missing division, square or all-reduce gives."""
    small, big, ranks, count = n.small, n.big, n.ranks, n.count
    yield (
        f"The average seems {ranks} times too long beside the own gradients. Either it"
        " is a sum over ranks still, or an own gradient is divided by world_size before"
        " its norm is taken.",
        n.scale(small, big * ranks**2),
    )
    yield (
        "The average is measured before it is one: wait for the all-reduce.",
        n.scale(small, small / ranks**2),
    )
    other = "Only one of the two sums is divided by"
    for part in (small * ranks, big), (small, big / ranks):
        yield f"{other} world_size: the own norms count {ranks} times.", n.scale(*part)
    for part in (small, big * ranks), (small / ranks, big):
        yield f"{other} world_size: the averages count {ranks} times.", n.scale(*part)
    for part in (small * count, big), (small, big * count):
        yield f"{other} the number of batches, {count}.", n.scale(*part)
    length, mean = n.local.sqrt(), n.average.sqrt()
    yield "norm() is not squared yet.", n.scale(length.mean(), mean.mean())
    order = "Square each norm, then average: a mean squared is no mean of squares."
    yield order, n.scale(length.mean() ** 2, mean.mean() ** 2)
    yield order, n.scale(length.mean() ** 2, big)
    yield order, n.scale(length.mean(1).square().mean(), big)
    yield (
        "The norms are squared twice.",
        n.scale(n.local.square().mean(), n.average.square().mean()),
    )


def piles(n):
    """What gradients of other batches give."""
    summed, average = n.gradients.cumsum(0), n.gradients.mean(1).cumsum(0)
    piled = (
        "Gradients of earlier batches are still in `.grad`, so the norms grow from"
        " batch to batch: zero_grad before each backward."
    )
    before = torch.cat([torch.zeros_like(average[:1]), average[:-1]])
    yield piled, n.of(n.gradients + before[:, None], average)
    yield piled, n.of(summed, average)
    yield (
        "These are the norms of one gradient over all batches. Take the norms of each"
        " batch, and add those up.",
        n.of(n.gradients.mean(0)),
    )
    one = "Only one batch counts: go through all of them before you divide or return."
    for batch in (0, n.count - 1):
        yield one, n.of(n.gradients[batch])
        yield one, n.scale(n.local[batch].mean() / n.count, n.big)
        yield one, n.scale(n.small, n.average[batch] / n.count)


def pieces(n):
    """Parts of the gradient overwritten by other parts."""
    bucket = (
        "A gradient comes in several buckets, one call of the hook for each. The"
        " squared norms of all buckets are added up: +=."
    )
    last = n.gradients.clone()
    last[1:, :, _FIRST_LAYER:] = 0  # the first batch has one bucket, DDP's habit
    local, average = last.square().sum(2), last.mean(1).square().sum(1)
    yield bucket, n.of(last)
    yield bucket, n.scale(local.mean(), n.big)
    yield bucket, n.scale(n.small, average.mean())
    yield bucket, n.scale(local[-1].mean() / n.count, n.big)
    # which all-reduce ends last is chance, on each rank
    other = n.average[-1] - average[-1]
    for number in range(n.ranks + 1):
        ended = torch.lerp(average[-1], other, number / n.ranks)
        yield bucket, n.scale(local[-1].mean(), ended)
        yield bucket, n.scale(n.small, ended / n.count)
    bias = n.gradients[:, :, -_LAST_BIAS:]
    final = "Only the last parameter counts: add up the squares of all of them."
    yield final, n.of(bias)
    yield final, n.of(bias[-1])
    parts = torch.tensor([64 * 32, 32, 320, _LAST_BIAS]).tolist()
    pieces = n.gradients.split(parts, 2), n.gradients.mean(1).split(parts, 1)
    local, average = ([p.square().sum(-1) for p in some] for some in pieces)
    yield (
        "A mean over elements weighs short tensors like long ones: a squared norm is a"
        " sum.",
        n.scale(
            sum(p / size for p, size in zip(local, parts)).mean(),
            sum(p / size for p, size in zip(average, parts)).mean(),
        ),
    )
    yield (
        "Lengths of parts do not add up, their squares do: square the norm of each"
        " parameter.",
        n.scale(
            sum(p.sqrt() for p in local).square().mean(),
            sum(p.sqrt() for p in average).square().mean(),
        ),
    )
