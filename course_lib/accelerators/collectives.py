"""Collectives as plain data: who sends which chunks to whom, round by round.

In a round each rank sends one message at most, and gets one at most.
"""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import NamedTuple

from course_lib.errors import UsageError


class Move(NamedTuple):
    """A message: `source` sends these chunks to `target`.

    The target adds them to its own if it `adds`, else they replace what it has. Sent is
    what the source has, or if it `forwards`, what it got last.
    """

    source: int
    target: int
    chunks: tuple[int, ...]
    adds: bool = False
    forwards: bool = False


@dataclass(frozen=True)
class Schedule:
    """What the ranks send in each round of a collective.

    A tensor is cut into `chunks` equal parts; `starts` and `ends` are the numbers of
    the chunks that each rank has before, and that it is to have in the end.
    """

    collective: str
    algorithm: str
    chunks: int
    rounds: tuple[tuple[Move, ...], ...]
    starts: tuple[tuple[int, ...], ...]
    ends: tuple[tuple[int, ...], ...]

    @property
    def ranks(self) -> int:
        """Return how many ranks take part."""
        return len(self.starts)

    def sent(self, rounds: int | None = None) -> list[Fraction]:
        """Return how many tensors each rank has sent after so many rounds, or all."""
        chunks = Counter()
        for moves in self.rounds[:rounds]:
            for move in moves:
                chunks[move.source] += len(move.chunks)
        return [Fraction(chunks[rank], self.chunks) for rank in range(self.ranks)]

    @property
    def busiest(self) -> Fraction:
        """Return how many tensors the rank has sent that sends most."""
        return max(self.sent())


# --- from one rank, or to one


def broadcast(ranks: int) -> Schedule:
    """Send by a binomial tree: in each round all that have it send it."""
    return _schedule("broadcast", "binomial tree", _tree(ranks)[::-1], ranks=ranks)


def naive_broadcast(ranks: int) -> Schedule:
    """Let rank 0 send its tensor to one rank after the other."""
    rounds = [[Move(0, rank, (0,))] for rank in range(1, _checked(ranks))]
    return _schedule("broadcast", "one after the other", rounds, ranks=ranks)


def reduce(ranks: int) -> Schedule:
    """Add by a binomial tree: neighbours in pairs, then pairs, up to rank 0."""
    rounds = [[_up(move) for move in moves] for moves in _tree(ranks)]
    return _schedule("reduce", "binomial tree", rounds, ranks=ranks)


def naive_reduce(ranks: int) -> Schedule:
    """Let one rank after the other send its tensor to rank 0."""
    rounds = [[Move(rank, 0, (0,), adds=True)] for rank in range(1, _checked(ranks))]
    return _schedule("reduce", "one after the other", rounds, ranks=ranks)


def _tree(ranks):
    """Return a binomial tree, leaves to rank 0; a move down: parent to child."""
    steps = [2**bit for bit in range((_checked(ranks) - 1).bit_length())]
    return [
        [Move(r, r + step, (0,)) for r in range(0, ranks - step, 2 * step)]
        for step in steps
    ]


def _up(move):
    return move._replace(source=move.target, target=move.source, adds=True)


# --- all-reduce


def reduce_broadcast(ranks: int) -> Schedule:
    """Let rank 0 add up all tensors and send the sum to all, one by one."""
    rounds = naive_reduce(ranks).rounds + naive_broadcast(ranks).rounds
    return _schedule("all-reduce", "reduce + broadcast", rounds, ranks=ranks)


def tree(ranks: int) -> Schedule:
    """Add up a binomial tree, and send the sum down again."""
    rounds = reduce(ranks).rounds + broadcast(ranks).rounds
    return _schedule("all-reduce", "binomial tree", rounds, ranks=ranks)


def whole_ring(ranks: int) -> Schedule:
    """Send whole tensors round: each rank adds what it gets, and forwards it."""
    moves = [
        Move(rank, (rank + 1) % ranks, (0,), adds=True, forwards=True)
        for rank in range(_checked(ranks))
    ]
    rounds = [moves] * (ranks - 1)
    return _schedule("all-reduce", "whole-tensor ring", rounds, ranks=ranks)


def chunked_ring(ranks: int) -> Schedule:
    """Send chunks round twice: to be added up, and to bring the sums to all."""
    rounds = reduce_scatter(ranks).rounds + all_gather(ranks).rounds
    return _schedule("all-reduce", "chunked ring", rounds, ranks=ranks, chunks=ranks)


def double_tree(ranks: int, blocks: int = 1) -> Schedule:
    """Let two binary trees carry a half of the tensor each, cut into `blocks`.

    While one block goes up a tree the next follows: what is long arrives sooner.

    Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast,
    reduction and scan", 2009; the trees are those of NCCL (`src/graph/trees.cc`).
    """
    moves = []
    for block in range(blocks):
        for half, parents in enumerate(binary_trees(ranks)):
            chunk = (half * blocks + block,)
            down = [Move(above, child, chunk) for child, above in parents.items()]
            moves += [*map(_up, down), *down[::-1]]
    name = f"double binary tree{f' in {blocks} blocks' if blocks > 1 else ''}"
    rounds = _packed(moves)
    return _schedule("all-reduce", name, rounds, ranks=ranks, chunks=2 * blocks)


def binary_trees(ranks: int) -> tuple[dict[int, int], dict[int, int]]:
    """Return two trees as `{rank: its parent}`, from the leaves up.

    With an even number of ranks the leaves of each are inside the other; with an odd
    one a single rank is inside both.
    """
    parents = {}
    for rank in sorted(range(1, _checked(ranks)), key=lambda rank: rank & -rank):
        bit = rank & -rank
        above = (rank ^ bit) | 2 * bit
        parents[rank] = above if above < ranks else rank ^ bit

    def other(rank):
        return (rank + 1) % ranks if ranks % 2 else ranks - 1 - rank

    return parents, {other(rank): other(above) for rank, above in parents.items()}


def _packed(moves):
    """Return moves of one chunk each, each in the earliest round that is free for it.

    It comes after all earlier moves that brought the chunk to its source or target.
    """
    rounds, ready, busy = {}, Counter(), set()
    for move in moves:
        source, target, [chunk] = move.source, move.target, move.chunks
        first = max(ready[source, chunk], ready[target, chunk])
        free = (n for n in count(first) if not {(n, source, 0), (n, target, 1)} & busy)
        at = next(free)
        busy |= {(at, source, 0), (at, target, 1)}
        ready[target, chunk] = at + 1
        rounds.setdefault(at, []).append(move)
    return [rounds[at] for at in sorted(rounds)]


# --- chunks that belong to ranks


def all_gather(ranks: int) -> Schedule:
    """Send round a ring: first the own chunk, then in each round the one that came."""
    rounds = [
        [Move(r, (r + 1) % ranks, ((r - step) % ranks,)) for r in range(ranks)]
        for step in range(_checked(ranks) - 1)
    ]
    return _schedule("all-gather", "ring", rounds, ranks=ranks, chunks=ranks)


def reduce_scatter(ranks: int) -> Schedule:
    """Send round a ring: a chunk is added up on its way to the rank of its number."""
    rounds = [
        [
            Move(r, (r + 1) % ranks, ((r - 1 - step) % ranks,), adds=True)
            for r in range(ranks)
        ]
        for step in range(_checked(ranks) - 1)
    ]
    return _schedule("reduce-scatter", "ring", rounds, ranks=ranks, chunks=ranks)


def all_to_all(ranks: int) -> Schedule:
    """Let pairs swap what they have for each other, all with all.

    Chunk `source * ranks + target` goes from source to target. With an odd number of
    ranks one has no partner in each round.
    """
    rounds = [
        [Move(r, partner, (r * ranks + partner,)) for r, partner in pairs.items()]
        for pairs in _pairings(_checked(ranks))
    ]
    return _schedule("all-to-all", "pairwise", rounds, ranks=ranks, chunks=ranks)


def _pairings(ranks):
    """Each round of a tournament as `{rank: partner}`."""
    turning = ranks - 1 + ranks % 2
    for turn in range(turning if ranks > 1 else 0):
        pairs = {r: (turn - r) % turning for r in range(turning)}
        [alone] = [r for r, partner in pairs.items() if r == partner]
        pairs.pop(alone)
        yield pairs | ({} if ranks % 2 else {alone: ranks - 1, ranks - 1: alone})


# --- schedules of these


def _schedule(collective, algorithm, rounds, *, ranks, chunks=1):
    every = (tuple(range(chunks)),) * _checked(ranks)
    own = tuple((rank,) for rank in range(ranks))
    root = (tuple(range(chunks)), *[()] * (ranks - 1))
    pairs = tuple(tuple(r * ranks + t for t in range(ranks)) for r in range(ranks))
    starts, ends = {
        "broadcast": (root, every),
        "reduce": (every, root),
        "all-reduce": (every, every),
        "all-gather": (own, every),
        "reduce-scatter": (every, own),
        "all-to-all": (pairs, tuple(zip(*pairs))),
    }[collective]
    rounds = tuple(tuple(moves) for moves in rounds)
    return Schedule(collective, algorithm, chunks, rounds, starts, ends)


def _checked(ranks):
    if type(ranks) is not int or ranks < 1:
        raise UsageError(f"a collective needs 1 rank or more: found {ranks!r:.60}")
    return ranks


COLLECTIVES = {
    "broadcast": broadcast,
    "reduce": reduce,
    "all-reduce": chunked_ring,
    "all-gather": all_gather,
    "reduce-scatter": reduce_scatter,
    "all-to-all": all_to_all,
}
ALL_REDUCES = {
    "reduce + broadcast": reduce_broadcast,
    "whole-tensor ring": whole_ring,
    "chunked ring": chunked_ring,
    "binomial tree": tree,
    "double binary tree": double_tree,
}
