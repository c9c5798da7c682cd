"""Exercise 4.1, in a rank: which samples each rank of several is told to read."""

import operator
from itertools import islice

import torch

from course_lib.exercises.values import plain, shown

_MOST = 40  # samples that are looked at: a generator may have no end


def observe(rank, world_size, answer, given):
    """Return what `answer` gives for each rank of each size, the `deals`.

    `given["sizes"]` are pairs of a number of samples and a number of ranks. A deal is a
    list of whole numbers, or the text of what was returned in its place.
    """
    return {
        "deals": [
            [_deal(answer, count, one, ranks) for one in range(ranks)]
            for count, ranks in given["sizes"]
        ]
    }


def _deal(answer, count, rank, ranks):
    try:
        value = answer(count, rank, ranks)
        if torch.is_tensor(value):
            value = plain(value)
        values = list(islice(value, _MOST)) if hasattr(value, "__iter__") else value
    except (ArithmeticError, IndexError, ValueError) as error:
        call = f"num_samples={count}, rank={rank}, world_size={ranks}"
        error.args = (f"{error}, with {call}",)
        raise
    try:
        found = plain([operator.index(number) for number in values])
    except TypeError:
        return shown(plain(value))
    return found if all(type(number) is int for number in found) else shown(found)
