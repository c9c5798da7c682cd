"""How a sampler deals samples to ranks, card by card."""

from torch.utils.data import DistributedSampler

from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.scene import Scene, varied
from course_lib.text import many

_CARD, _GAP = 30, 4  # of 640, the width of a figure
_LEFT, _TOP = 70, 62


def dealing(
    *, samples=(10,), ranks=(4,), shuffle=(False,), drop_last=(False,)
) -> Scene:
    """Which rank reads which sample: torch's own `DistributedSampler` deals.

    Each argument is the list of values that a slider offers, the first one shown
    first: `dealing(samples=[10, 12], ranks=[4, 2, 3], drop_last=[False, True])`. What
    is dealt a second time, to fill up, has a dashed outline. Seed 0, epoch 0.
    """
    options = {"samples": samples, "ranks": ranks}
    options |= {"shuffle": shuffle, "drop_last": drop_last}
    options = {name: list(values) for name, values in options.items()}
    sliders = {name: sorted(values) for name, values in options.items()}
    first = {name: values[0] for name, values in options.items()}
    varying = {name: values for name, values in sliders.items() if len(values) > 1}

    def moments(**values):
        return _moments(**first | values)

    height = _TOP + max(ranks) * (_CARD + 8) + 8
    return varied(
        moments,
        varying,
        at={name: first[name] for name in varying},
        height=height,
        source="computed by torch's DistributedSampler, seed 0, epoch 0",
        seconds=0.4,
    )


def _moments(*, samples, ranks, shuffle, drop_last):
    samplers = [
        DistributedSampler(
            range(samples),
            ranks,
            rank,
            shuffle=shuffle,
            drop_last=drop_last,
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
    """What came of it: how many each, how many twice, how many left out."""
    each, twice = len(dealt) // ranks, len(dealt) - len({*dealt})
    left = samples - len({*dealt})
    rest = f", {twice} twice" * bool(twice) + f", {left} left out" * bool(left)
    return f"{many(ranks, 'rank')} read {each} samples each{rest}."


def _items(order, dealt, ranks):
    yield label("deck", (0, 26), "samples")
    for rank in range(ranks):
        y = _TOP + rank * (_CARD + 8)
        yield label(f"rank {rank}", (0, y + _CARD / 2), f"rank {rank}")
        yield Item(f"row {rank}", _LEFT - 6, y - 3, 640 - _LEFT, _CARD + 6, "box")
    for place, sample in enumerate(order):
        if sample not in dealt:
            x = _LEFT + place * (_CARD + _GAP)
            yield _card(f"card {sample}", x, 12, role="card", sample=sample)
    for number, sample in enumerate(dealt):
        turn, rank = divmod(number, ranks)
        x = _LEFT + turn * (_CARD + _GAP)
        y = _TOP + rank * (_CARD + 8)
        again = sample in dealt[:number]
        name = f"again {number}" if again else f"card {sample}"
        tip = f"sample {sample}: number {turn + 1} of rank {rank}"
        tip += ", which another rank reads, too" if again else ""
        role = f"rank-{rank}{' again' * again}"
        yield _card(name, x, y, role=role, sample=sample)._replace(tip=tip)


def _card(name, x, y, *, role, sample):
    tip = f"sample {sample}: not dealt"
    return Item(name, x, y, _CARD, _CARD, role, str(sample), tip)
