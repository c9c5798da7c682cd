"""Exercise 4.1, decided: which rank reads which sample."""

import random
from collections.abc import Iterator
from textwrap import shorten

from course_lib.exercises.attempt import Failed
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.text import extent, listed, many

_TEXTS = Texts("4.1")
# samples and ranks; with few samples different mistakes give the same
_SIZES = ((30, 3), (10, 4), (13, 5), (8, 2), (7, 1), (3, 5), (2, 7))
_TELLING = 4  # of them
_SAID = 60  # characters of a list that a sentence shows
_DRAWN = 1  # the size that is drawn of a right answer


def cases(seed: int) -> Iterator[Case]:
    """Yield all sizes in one case: even, uneven, one rank, more ranks than samples.

    Expected is what DistributedSampler gives to each rank.
    https://docs.pytorch.org/docs/stable/data.html
    """
    sizes = _drawn(random.Random(seed)) if seed else _SIZES
    yield Case({"sizes": sizes}, expected=[_dealt(*size) for size in sizes])


def _drawn(numbers):
    """Sizes of the same kinds, in the same order."""
    ranks = [numbers.randint(3, 6) for _ in range(4)]
    # two too few, or one too many, for all ranks to have equally many
    rests = (0, ranks[1] - 2, 1, 0)
    rows = (numbers.randint(2, 5) for _ in ranks)
    even = tuple(row * of + rest for row, of, rest in zip(rows, ranks, rests))
    few = [(few, few * 2 + numbers.randint(1, 3)) for few in (2, 3)]
    return *zip(even, ranks), (numbers.randint(2, 9), 1), *few


def _dealt(count, ranks):
    length = -(-count // ranks)
    return [[i % count for i in range(length * ranks)][r::ranks] for r in range(ranks)]


def judge(case: Case, seen) -> str:
    """Compare every rank's samples, in all sizes."""
    [rank] = seen
    sizes, deals = case.given["sizes"], rank["deals"]
    deals = [[*deal, *["None"] * of][:of] for deal, (_, of) in zip(deals, sizes)]
    number = _first_wrong(deals, case.expected)
    if number is None:
        return f"{len(sizes)} cases on {extent([of for _, of in sizes], ' ranks')}"
    (count, ranks), shares = sizes[number], deals[number]
    expected = case.expected[number]
    one = _first_wrong(shares, expected)
    why, facts = _why(shares, expected, count=count, rank=one)
    raise _TEXTS.wrong(
        "other samples",
        why=why,
        # exact, in words: of numbers that are near each other each tells a mistake
        clue=list(map(str, deals[:_TELLING])) if number < _TELLING else None,
        got=shorten(str(shares[one]), _SAID, placeholder=" …"),
        expected=expected[one],
        samples=many(count, "sample"),
        **{"rank": one, "ranks": ranks, "count": count, "last": count - 1},
        **facts,
    )


def _first_wrong(found, expected):
    pairs = enumerate(zip(found, expected))
    return next((number for number, (one, other) in pairs if one != other), None)


def _why(shares, expected, *, count, rank):
    """The name of a hint, and what fills it in: the first fact that differs."""
    if any(isinstance(share, str) for share in shares):
        return "no list", {}
    lengths, length = list(map(len, shares)), len(expected[0])
    if set(lengths) != {length}:
        return "lengths", {"lengths": extent(lengths), "length": length}
    dealt, right = _in_turn(shares), _in_turn(expected)
    if dealt[:count] == right[:count]:
        more, right = listed(dealt[count:]), listed(right[count:])
        return "goes on", {"more": more, "right": right}
    return "deal", {"first": expected[rank][0]}


def _in_turn(shares):
    """The samples as they were dealt: one to each rank, again and again."""
    return [number for row in zip(*shares) for number in row]


def failed(case: Case, wrong: Failed) -> str:
    """Say what a position is, if there was none of that number."""
    if wrong.error.kind == "IndexError":
        wrong.hint = _TEXTS.hint("too long")
    raise wrong


def draw(case: Case, seen):
    """Draw the size that differs, of a right answer 10 samples; only real samples."""
    from course_lib.plots.sharding import plot_sharding

    deals, wrong = seen[0]["deals"], _first_wrong(seen[0]["deals"], case.expected)
    number = _DRAWN if wrong is None else wrong
    count, _ = case.given["sizes"][number]
    shares = [set(range(count)).intersection(share) for share in deals[number]]
    return plot_sharding(list(map(sorted, shares)), num_samples=count)
