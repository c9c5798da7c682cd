"""How a sampler deals samples to ranks, card by card."""

import functools
import math

from torch.utils.data import DistributedSampler

from course_lib.errors import UsageError
from course_lib.scenes.arguments import switches, whole_numbers
from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.scene import WIDTH, Scene, varied
from course_lib.text import many

_CARD, _GAP = 30, 4  # of 640, the width of a figure
_LEFT, _TOP = 70, 28
_MOST_SAMPLES, _MOST_RANKS = 32, 16  # with two digits on a card
_MOST_ABREAST = (WIDTH - _LEFT) // (22 + _GAP)  # cards on which two digits have room


def dealing(*, samples=10, ranks=4, shuffle=False, drop_last=False) -> Scene:
    """Show which rank reads which sample: torch's `DistributedSampler` deals.

    Each argument is a value, or a list for a slider; its first value is shown first:
    `dealing(samples=10, ranks=[4, 2, 3], drop_last=[False, True])`. What is dealt a
    second time, to fill up, has a dashed outline. Seed 0, epoch 0.

    Errors: `UsageError` for what is no such value, an empty list, or more samples for
    a rank than its row has room for.
    """
    options: dict[str, list] = {
        "samples": whole_numbers("samples", samples, most=_MOST_SAMPLES),
        "ranks": whole_numbers("ranks", ranks, most=_MOST_RANKS),
        "shuffle": switches("shuffle", shuffle),
        "drop_last": switches("drop_last", drop_last),
    }
    most, fewest = max(options["samples"], default=1), min(options["ranks"], default=1)
    if math.ceil(most / fewest) > _MOST_ABREAST:
        raise UsageError(
            f"{many(most, 'sample')} cannot be dealt to {many(fewest, 'rank')}: "
            f"the row of a rank has room for {_MOST_ABREAST}. Take more ranks"
        )
    lines = math.ceil(most / _MOST_ABREAST)
    seed = ", seed 0, epoch 0" if any(options["shuffle"]) else ""
    return varied(
        functools.partial(_moments, lines),
        options,
        height=_row(max(options["ranks"], default=1), lines) + 8,
        source=f"computed by torch's DistributedSampler{seed}",
        seconds=0.4,
    )


def _moments(lines, *, samples, ranks, shuffle, drop_last):
    """Return the moments of one deal; the samples above lie in so many lines."""
    samplers = [
        DistributedSampler(
            range(samples), ranks, rank, shuffle=shuffle, drop_last=drop_last
        )
        for rank in range(ranks)
    ]
    hands = [list(sampler) for sampler in samplers]
    dealt = [hand[turn] for turn in range(len(hands[0])) for hand in hands]
    order = [*dict.fromkeys(dealt), *sorted({*range(samples)} - {*dealt})]
    moments = [Moment(_first(samples, shuffle), _items(order, [], ranks, lines))]
    for count in range(1, len(dealt) + 1):
        sample, rank = dealt[count - 1], (count - 1) % ranks
        again = " again, to fill up" if sample in dealt[: count - 1] else ""
        title = f"Rank {rank} gets sample {sample}{again}."
        moments.append(Moment(title, _items(order, dealt[:count], ranks, lines)))
    items = _items(order, dealt, ranks, lines)
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


def _items(order, dealt, ranks, lines):
    """Yield the rows of the ranks, cards that are dealt in them, the others above."""
    abreast = math.ceil(len(order) / lines)
    wide = min(_CARD, (WIDTH - _LEFT) / abreast - _GAP)
    yield label("deck", (0, 26), "samples")
    for rank in range(ranks):
        y = _row(rank, lines)
        yield label(f"rank {rank}", (0, y + _CARD / 2), f"rank {rank}")
        yield Item(f"row {rank}", _LEFT - 6, y - 3, WIDTH - _LEFT, _CARD + 6, "box")
    for place, sample in enumerate(order):
        if sample not in dealt:
            tip = f"sample {sample}: not dealt"
            line, column = divmod(place, abreast)
            x, y = _LEFT + column * (wide + _GAP), 12 + line * (_CARD + _GAP)
            text = str(sample)
            yield Item(f"card {sample}", x, y, wide, _CARD, "card", text, tip)
    for number, sample in enumerate(dealt):
        turn, rank = divmod(number, ranks)
        again = sample in dealt[:number]
        name, role = f"card {sample}", f"rank-{rank % 8}"
        tip = f"sample {sample}: number {turn + 1} of rank {rank}"
        if again:
            name, role = f"again {number}", f"{role} again"
            tip += ", which another rank reads, too"
        left, top = _LEFT + turn * (wide + _GAP), _row(rank, lines)
        yield Item(name, left, top, wide, _CARD, role, str(sample), tip)


def _row(rank, lines):
    return _TOP + lines * (_CARD + _GAP) + rank * (_CARD + 8)
