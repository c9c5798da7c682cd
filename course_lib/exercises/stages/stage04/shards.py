"""Exercise 4.1: which rank reads which sample."""

import operator
from functools import partial
from itertools import islice

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.text import short

_SIZES = ((30, 3), (10, 4), (10, 3), (8, 2), (7, 1), (3, 5), (2, 7))
_TELLING = 4  # of them: with few samples different mistakes give the same
_DRAWN = (10, 4)
_SAID = 12  # numbers of a list that a sentence shows
_MOST = 40  # samples that are looked at: a generator may have no end


@baseline.settled()
def check_shards(attempt: Attempt) -> str:
    """Compare every rank's samples with those of DistributedSampler.

    https://docs.pytorch.org/docs/stable/data.html
    """
    (found,) = attempt(_deal, world_size=1)
    _draw(attempt, _DRAWN, found)
    for (count, ranks), shards in zip(_SIZES, found):
        for rank, expected in enumerate(_dealt(count, ranks)):
            if shards[rank] != expected:
                _draw(attempt, (count, ranks), found)
                raise Wrong(
                    f"rank {rank} of {ranks} gets {_said(shards[rank])} of {count}"
                    f" samples, expected {_said(expected)}",
                    _why(found),
                )
    return f"{len(_SIZES)} cases on 1 to 7 ranks, all as DistributedSampler deals"


def _deal(rank, world_size, answer):
    return [[_numbers(answer(n, r, of)) for r in range(of)] for n, of in _SIZES]


def _numbers(value):
    try:
        return [operator.index(number) for number in islice(value, _MOST)]
    except TypeError:
        return short(value)


def _said(shard):
    """A list in a sentence, without the end of a long one."""
    if isinstance(shard, str) or len(shard) <= _SAID:
        return shard
    return f"[{', '.join(map(str, shard[:_SAID]))}, …]"


def _draw(attempt, case, found):
    """Let the notebook show a case, if all its numbers are samples."""
    count, shards = case[0], found[_SIZES.index(case)]
    lists = [shard for shard in shards if isinstance(shard, list)]
    drawable = all(0 <= i < count for shard in lists for i in shard)
    if len(lists) == len(shards) and drawable:
        attempt.picture = partial(_picture, shards, count)


def _length(count, ranks):
    return -(-count // ranks)


def _padded(count, ranks):
    return [i % count for i in range(_length(count, ranks) * ranks)]


def _dealt(count, ranks):
    return _shares(_padded(count, ranks), ranks)


def _shares(every, ranks):
    return [every[rank::ranks] for rank in range(ranks)]


def _blocks(every, ranks):
    length = _length(len(every), ranks)
    return [every[rank * length :][:length] for rank in range(ranks)]


def _filled(count, ranks, filler):
    missing = _length(count, ranks) * ranks - count
    return _shares([*range(count), *[filler] * missing], ranks)


def _split(count, ranks):
    shortest, longer = divmod(count, ranks)
    sizes = [shortest + (rank < longer) for rank in range(ranks)]
    every = iter(range(count))
    return [[next(every) for _ in range(size)] for size in sizes]


def _own(count, ranks):
    shares = _shares(list(range(count)), ranks)
    return [(share * 2)[: _length(count, ranks)] for share in shares]


# what each mistake hands out; the first that gives the same is the learner's
_MISTAKES = (
    (
        lambda n, of: _shares(list(range(n)), of),
        "The ranks get different numbers of samples. One of them may then have a batch"
        " more, and wait for ever in its all-reduce. Pad the list first.",
    ),
    (
        lambda n, of: _shares(list(range(n // of * of)), of),
        "You drop the samples that are left over, so nobody reads them. Make the list"
        " longer, not shorter.",
    ),
    (
        lambda n, of: _blocks(_padded(n, of), of),
        "These are blocks of neighbours. DistributedSampler deals like cards: one to"
        " each rank in turn.",
    ),
    (
        lambda n, of: _blocks(list(range(n)), of),
        "These are blocks of neighbours, and the last one is short. Pad the list, then"
        " deal it like cards.",
    ),
    (
        lambda n, of: _blocks(list(range(n // of * of)), of),
        "These are blocks of neighbours, and the rest is dropped. Pad the list, then"
        " deal it like playing cards.",
    ),
    (
        _split,
        "These are blocks of neighbours, and some are one longer than others. Pad the"
        " list, then deal it card by card.",
    ),
    (
        lambda n, of: [list(range(n))] * of,
        "Every rank gets everything, so nothing is shared out. Take every"
        " world_size-th sample, from your rank on.",
    ),
    (
        lambda n, of: _filled(n, of, n - 1),
        "You pad by repeating the last sample. The padding starts again from sample 0.",
    ),
    (
        lambda n, of: _filled(n, of, 0),
        "You pad with sample 0 alone. The padding goes on counting: 0, 1, 2 …",
    ),
    (
        _own,
        "A rank that is short repeats a sample of its own. The padding belongs at the"
        " end of the whole list, before it is dealt.",
    ),
    (
        lambda n, of: [_dealt(n, of)[(rank + 1) % of] for rank in range(of)],
        "Each rank has what the next one should have. The first rank is 0.",
    ),
    (
        lambda n, of: [_dealt(n, of)[rank - 1] for rank in range(of)],
        "Each rank has what the one before it should have. Ranks begin at 0, not at 1.",
    ),
    (
        lambda n, of: [[i + 1 for i in share] for share in _dealt(n, of)],
        "Each number is one too large: the first sample is sample 0.",
    ),
    (
        lambda n, of: _shares([i % n for i in range((n // of + 1) * of)], of),
        "Where the samples divide evenly you add a whole row. Round up by"
        " -(-num_samples // world_size): 8 on 2 ranks need no padding.",
    ),
    (
        lambda n, of: [_padded(n, 2)[rank::2] for rank in range(of)],
        "You deal to 2 ranks, however many there are. Use `world_size`.",
    ),
    (
        lambda n, of: [_padded(n, 4)[rank::4] for rank in range(of)],
        "You deal to 4 ranks, however many there are. Use the parameter `world_size`.",
    ),
)


def _why(found):
    every = [shard for shards in found for shard in shards]
    if all(shard == "None" for shard in every):
        return "The function returns nothing: `return` the list."
    if not any(every):
        return "The list is empty for every rank: nothing was dealt."
    if any(isinstance(shard, str) for shards in found for shard in shards):
        return "Return a list of sample numbers: whole numbers from 0."
    telling = list(zip(_SIZES, found))[:_TELLING]
    for gives, hint in _MISTAKES:
        if all(gives(*size) == shards for size, shards in telling):
            return hint
    if all(_dealt(*size) == shards for size, shards in telling):
        return (
            "With more ranks than samples the list starts again several times, until"
            " each rank has one."
        )
    if all(_shuffled(*case) for case in telling):
        return "The order is shuffled; here it is asked for without shuffling."
    return "Write the padded list of 10 samples for 4 ranks on paper, then deal it."


def _shuffled(size, shards):
    """True if all ranks together have the right samples, in some other order."""
    count, ranks = size
    lengths = {len(shard) for shard in shards}
    every = {number for shard in shards for number in shard}
    return lengths == {_length(count, ranks)} and every == set(range(count))


def _picture(shards, count):
    from course_lib.plots.sharding import plot_sharding

    return plot_sharding(shards, num_samples=count)
