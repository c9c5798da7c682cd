"""How a sampler deals samples to ranks, card by card."""

from torch.utils.data import DistributedSampler

from course_lib.scenes.arguments import switches, whole_numbers
from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.scene import WIDTH, Scene, varied
from course_lib.text import many

_CARD, _GAP = 30, 4  # of 640, the width of a figure
_LEFT, _TOP = 70, 62
_MOST_SAMPLES, _MOST_RANKS = 32, 16  # with two digits on a card


def dealing(*, samples=10, ranks=4, shuffle=False, drop_last=False) -> Scene:
    """Show which rank reads which sample: torch's `DistributedSampler` deals.

    Each argument is a value, or a list for a slider; its first value is shown first:
    `dealing(samples=10, ranks=[4, 2, 3], drop_last=[False, True])`. What is dealt a
    second time, to fill up, has a dashed outline. Seed 0, epoch 0.

    Errors: `UsageError` for what is no such value, or an empty list.
    """
    options: dict[str, list] = {
        "samples": whole_numbers("samples", samples, most=_MOST_SAMPLES),
        "ranks": whole_numbers("ranks", ranks, most=_MOST_RANKS),
        "shuffle": switches("shuffle", shuffle),
        "drop_last": switches("drop_last", drop_last),
    }
    seed = ", seed 0, epoch 0" if any(options["shuffle"]) else ""
    return varied(
        _moments,
        options,
        height=_row(max(options["ranks"], default=1)) + 8,
        source=f"computed by torch's DistributedSampler{seed}",
        seconds=0.4,
    )


def _moments(*, samples, ranks, shuffle, drop_last):
    samplers = [
        DistributedSampler(
            range(samples), ranks, rank, shuffle=shuffle, drop_last=drop_last
        )
        for rank in range(ranks)
    ]
    hands = [list(sampler) for sampler in samplers]
    dealt = [hand[turn] for turn in range(len(hands[0])) for hand in hands]
    order = [*dict.fromkeys(dealt), *sorted({*range(samples)} - {*dealt})]
    moments = [Moment(_first(samples, shuffle), _items(order, [], ranks))]
    for count in range(1, len(dealt) + 1):
        sample, rank = dealt[count - 1], (count - 1) % ranks
        again = " again, to fill up" if sample in dealt[: count - 1] else ""
        title = f"Rank {rank} gets sample {sample}{again}."
        moments.append(Moment(title, _items(order, dealt[:count], ranks)))
    items = _items(order, dealt, ranks)
    return [*moments, Moment(_last(samples, dealt, ranks), items)]


def _first(samples, shuffle):
    order = "shuffled, in the same order on all ranks" if shuffle else "in order"
    return f"{many(samples, 'sample')}, {order}."


def _last(samples, dealt, ranks):
    """Say what came of it: how many each, how many twice, how many left out."""
    each, twice = len(dealt) // ranks, len(dealt) - len({*dealt})
    left = samples - len({*dealt})
    title = f"{many(ranks, 'rank')} read {many(each, 'sample')} each"
    if twice:
        title += f", {twice} twice"
    if left:
        title += f", {left} left out"
    return f"{title}."


def _items(order, dealt, ranks):
    """Yield the rows of the ranks, cards that are dealt in them, the others above."""
    wide = min(_CARD, (WIDTH - _LEFT) / len(order) - _GAP)
    yield label("deck", (0, 26), "samples")
    for rank in range(ranks):
        y = _row(rank)
        yield label(f"rank {rank}", (0, y + _CARD / 2), f"rank {rank}")
        yield Item(f"row {rank}", _LEFT - 6, y - 3, WIDTH - _LEFT, _CARD + 6, "box")
    for place, sample in enumerate(order):
        if sample not in dealt:
            tip = f"sample {sample}: not dealt"
            x = _LEFT + place * (wide + _GAP)
            text = str(sample)
            yield Item(f"card {sample}", x, 12, wide, _CARD, "card", text, tip)
    for number, sample in enumerate(dealt):
        turn, rank = divmod(number, ranks)
        again = sample in dealt[:number]
        name, role = f"card {sample}", f"rank-{rank % 8}"
        tip = f"sample {sample}: number {turn + 1} of rank {rank}"
        if again:
            name, role = f"again {number}", f"{role} again"
            tip += ", which another rank reads, too"
        left, top = _LEFT + turn * (wide + _GAP), _row(rank)
        yield Item(name, left, top, wide, _CARD, role, str(sample), tip)


def _row(rank):
    return _TOP + rank * (_CARD + 8)
