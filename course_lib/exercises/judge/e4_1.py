"""Exercise 4.1, decided: which rank reads which sample."""

import random
from collections.abc import Iterator

from course_lib.exercises.attempt import Failed
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e4_1 import observe
from course_lib.text import extent, listed, many

# samples and ranks; with few samples different mistakes give the same
_SIZES = ((30, 3), (10, 4), (13, 5), (8, 2), (7, 1), (3, 5), (2, 7))
_TELLING = 4  # of them
_SAID = 12  # numbers of a list that a sentence shows
_DRAWN = 1  # the size that is drawn of a right answer
_AGAIN = (
    "With more ranks than samples the list starts again several times, until each rank"
    " has one."
)


def cases(seed: int) -> Iterator[Case]:
    """All sizes in one case: even and uneven ones, one rank, more ranks than samples.

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
    raise Wrong(
        f"rank {one} of {ranks} gets {_said(shares[one])} of {many(count, 'sample')},"
        f" expected {_said(expected[one])}",
        _why_no_numbers(shares) or _why(shares, expected, count),
        # exact, in words: of numbers that are near each other each tells a mistake
        clue=list(map(str, deals[:_TELLING])) if number < _TELLING else None,
    )


def _first_wrong(found, expected):
    pairs = enumerate(zip(found, expected))
    return next((number for number, (one, other) in pairs if one != other), None)


def _said(share):
    """A list in a sentence, without the end of a long one."""
    if isinstance(share, str) or len(share) <= _SAID:
        return share
    return f"[{', '.join(map(str, share[:_SAID]))}, …]"


def _why_no_numbers(shares):
    """The hint for what is no list of sample numbers, or None."""
    if all(share == "None" for share in shares):
        return "The function returns nothing: `return` the list."
    if any(isinstance(share, str) for share in shares):
        return "Return a list of the samples of `rank` alone: whole numbers from 0."
    if not any(shares):
        return "The list is empty for every rank: nothing was dealt."
    return None


def _why(shares, expected, count):
    """The hint for lists of numbers: the first fact that differs."""
    ranks, length = len(shares), len(expected[0])
    lengths = [len(share) for share in shares]
    beyond = [number for share in shares for number in share if not 0 <= number < count]
    every, more = many(count, "sample"), f" {_AGAIN}" if ranks > count else ""
    if set(lengths) != {length}:
        return (
            f"The ranks get {extent(lengths)} of {every}, expected {length} each:"
            f" {count} / {ranks}, rounded up.{more}"
        )
    if beyond:
        return (
            f"There is no sample {beyond[0]}: {every} have the numbers 0 to"
            f" {count - 1}.{more}"
        )
    dealt = [number for row in zip(*shares) for number in row]
    if dealt[:count] == list(range(count)):
        found, right = dealt[count:], [i % count for i in range(count, len(dealt))]
        return (
            f"After the samples 0 to {count - 1} the list goes on with {listed(found)},"
            f" expected {listed(right)}: it starts again from 0."
        )
    one = _first_wrong(shares, expected)
    return _why_other_deal(one, shares[one], count=count, ranks=ranks)


def _why_other_deal(rank, share, *, count, ranks):
    steps = {(after - before) % count for before, after in zip(share, share[1:])}
    if len(steps) > 1:
        return "The order is shuffled; here it is asked for without shuffling."
    if steps and steps != {ranks % count}:
        return (
            f"Rank {rank} goes from sample {share[0]} to sample {share[1]}, expected"
            f" steps of {ranks}. Deal like cards: one sample to each rank in turn."
        )
    return (
        f"Rank {rank} begins with sample {share[0]}, expected {rank % count}. Ranks and"
        " samples both count from 0."
    )


def failed(case: Case, wrong: Failed) -> str:
    """Say what a position is, if there was none of that number."""
    if wrong.error.kind == "IndexError":
        wrong.hint = (
            "The positions of the padded list go on beyond the last sample: make the"
            " list longer before you deal, or take the remainder, `i % num_samples`."
        )
    elif not wrong.hint:
        wrong.hint = f"Make this very call in a cell of your own. {_AGAIN}"
    raise wrong


def draw(case: Case, seen):
    """Draw the size that differs, of a right answer 10 samples; only real samples."""
    from course_lib.plots.sharding import plot_sharding

    deals, wrong = seen[0]["deals"], _first_wrong(seen[0]["deals"], case.expected)
    number = _DRAWN if wrong is None else wrong
    count, _ = case.given["sizes"][number]
    shares = [set(range(count)).intersection(share) for share in deals[number]]
    return plot_sharding(list(map(sorted, shares)), num_samples=count)


EXERCISE = Exercise(
    "4.1",
    observe,
    cases,
    judge,
    proof="{}, all as DistributedSampler deals",
    draw=draw,
    failed=failed,
)
