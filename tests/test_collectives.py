"""Schedules of collectives: the result is right, and what it costs is counted."""

from fractions import Fraction
from functools import partial

import pytest

from course_lib.accelerators import collectives
from course_lib.errors import UsageError
from tests.played import run

RANKS = range(1, 10)
ALL_REDUCES = {
    "reduce + broadcast": collectives.reduce_broadcast,
    "whole-tensor ring": collectives.whole_ring,
    "chunked ring": collectives.chunked_ring,
    "tree": collectives.tree,
    "double tree": collectives.double_tree,
    "double tree in blocks": partial(collectives.double_tree, blocks=3),
}
OTHERS = [*collectives.COLLECTIVES.values()]
OTHERS += [collectives.naive_broadcast, collectives.naive_reduce]


def tensors(ranks, length):
    """Other numbers on each rank."""
    return [[100 * rank + 7 * i**2 for i in range(length)] for rank in range(ranks)]


def total(rows):
    return [sum(numbers) for numbers in zip(*rows)]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("length", [0, 1, 5, 12])
@pytest.mark.parametrize("name", ALL_REDUCES)
def test_after_an_all_reduce_every_rank_has_the_sum(name, ranks, length):
    given = tensors(ranks, length)
    assert run(ALL_REDUCES[name](ranks), given) == [total(given)] * ranks


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("length", [0, 1, 5, 12])
def test_each_other_collective_brings_what_it_promises(ranks, length):
    given, nothing = tensors(ranks, length), [[]] * (ranks - 1)
    for broadcast in (collectives.broadcast, collectives.naive_broadcast):
        assert run(broadcast(ranks), given) == [given[0]] * ranks
    for reduce in (collectives.reduce, collectives.naive_reduce):
        assert run(reduce(ranks), given) == [total(given), *nothing]
    assert run(collectives.all_gather(ranks), given) == [sum(given, [])] * ranks
    assert sum(run(collectives.reduce_scatter(ranks), given), []) == total(given)


@pytest.mark.parametrize("ranks", RANKS)
def test_all_to_all_is_a_transposition(ranks):
    given = [[(source, target) for target in range(ranks)] for source in range(ranks)]
    transposed = [list(column) for column in zip(*given)]
    assert run(collectives.all_to_all(ranks), given) == transposed


@pytest.mark.parametrize("ranks", [*RANKS, 16, 33])
@pytest.mark.parametrize("make", [*ALL_REDUCES.values(), *OTHERS])
def test_in_a_round_each_rank_sends_one_message_at_most_and_gets_one(make, ranks):
    for moves in make(ranks).rounds:
        assert len({move.source for move in moves}) == len(moves) > 0
        assert len({move.target for move in moves}) == len(moves)
        assert all(move.source != move.target for move in moves)


@pytest.mark.parametrize(
    ("name", "bill", "rounds"),
    [
        ("reduce + broadcast", 7, 14),
        ("whole-tensor ring", 7, 7),
        ("chunked ring", 1.75, 14),
        ("tree", 3, 6),
        ("double tree", 2, 10),
        ("double tree in blocks", 2, 18),
    ],
)
def test_the_bill_of_the_busiest_of_eight_ranks(name, bill, rounds):
    plan = ALL_REDUCES[name](8)
    assert (plan.busiest, len(plan.rounds)) == (bill, rounds)


def test_the_bill_grows_round_by_round():
    plan = collectives.reduce_broadcast(4)
    bills = [plan.sent(rounds) for rounds in range(7)]
    assert bills[3] == [0, 1, 1, 1] and bills[6] == plan.sent() == [3, 1, 1, 1]
    assert collectives.chunked_ring(3).sent(1) == [Fraction(1, 3)] * 3


@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
def test_each_rank_of_a_ring_sends_its_share_of_two_tensors(ranks):
    share = Fraction(ranks - 1, ranks)
    assert {*collectives.chunked_ring(ranks).sent()} == {2 * share}
    assert {*collectives.all_gather(ranks).sent()} == {share}
    assert {*collectives.reduce_scatter(ranks).sent()} == {share}
    assert {*collectives.all_to_all(ranks).sent()} == {share}


@pytest.mark.parametrize("ranks", range(2, 20))
def test_who_is_inside_one_of_two_trees_is_a_leaf_of_the_other(ranks):
    trees = collectives.binary_trees(ranks)
    first, second = ({*parents.values()} for parents in trees)
    assert len(first & second) == ranks % 2
    for parents in trees:
        [root] = {*range(ranks)} - {*parents}
        children = [[*parents.values()].count(rank) for rank in range(ranks)]
        assert max(children) <= 2 and children[root] == 1


def test_the_two_trees_of_eight_ranks_are_those_of_nccl():
    first, second = collectives.binary_trees(8)
    assert first == {1: 2, 3: 2, 5: 6, 7: 6, 2: 4, 6: 4, 4: 0}
    assert second == {6: 5, 4: 5, 2: 1, 0: 1, 5: 3, 1: 3, 3: 7}


@pytest.mark.parametrize("ranks", [8, 16, 64])
def test_blocks_make_the_double_tree_quick(ranks):
    def time(plan):
        """Of all rounds, each as long as its largest message; a unit is a tensor."""
        return sum(max(len(m.chunks) for m in moves) for moves in plan.rounds) / (
            plan.chunks
        )

    whole, cut = (collectives.double_tree(ranks, blocks) for blocks in (1, 16))
    assert cut.busiest == whole.busiest <= 2
    assert time(cut) < 3.5 < time(whole) < time(collectives.tree(ranks))


@pytest.mark.parametrize("ranks", [0, -1, 2.0, True, None, "4"])
@pytest.mark.parametrize("make", [*ALL_REDUCES.values(), *OTHERS])
def test_what_is_no_number_of_ranks_is_refused(make, ranks):
    with pytest.raises(UsageError, match="needs 1 rank or more: found"):
        make(ranks)
