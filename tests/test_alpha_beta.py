import itertools
import random

import pytest

from benchmarks import all_reduce
from course_lib.accelerators import collectives
from course_lib.accelerators.alpha_beta import (
    ALGORITHMS,
    crossover,
    find_algorithm,
    fit,
)
from course_lib.accelerators.hardware import LINKS, Link
from course_lib.errors import UsageError
from course_lib.launching.launcher import launch

MANY = range(1, 18)
LINK = Link("a test's", bandwidth=1e9, latency=1e-5, source="")

# --- schedules: rounds of moves, a move is (sender, receiver, chunks)


def moves(schedule):
    """Makes a schedule for n ranks, as moves."""
    return lambda n: [
        [(move.source, move.target, {*move.chunks}) for move in moves]
        for moves in schedule(n).rounds
    ]


def mirror(rounds):
    """The reduce that belongs to a broadcast: backwards, each move the other way."""
    return [[(to, at, what) for at, to, what in moves] for moves in rounds[::-1]]


def halving(n):
    power = 2 ** (n.bit_length() - 1)
    spare, steps = range(power, n), [2**i for i in range(power.bit_length() - 1)]
    outer = [[(r - power, r, set(range(power))) for r in spare]] if spare else []
    doubling = []
    for step in steps:
        # a rank has the chunks of the ranks that agree with it in the upper bits
        starts = [rank // step * step for rank in range(power)]
        blocks = [set(range(start, start + step)) for start in starts]
        doubling.append([(r, r ^ step, blocks[r]) for r in range(power)])
    return mirror(outer) + mirror(doubling) + doubling + outer


def all_reduced(rounds, n, chunks):
    """True if every rank has every chunk of all in the end, and none counted twice."""
    state = [[{rank} for _ in range(chunks)] for rank in range(n)]
    for moves in rounds:
        sent = [(to, c, set(state[at][c])) for at, to, what in moves for c in what]
        for to, c, ranks in sent:
            assert not ranks & state[to][c] or len(ranks) == n
            state[to][c] |= ranks
    return all(len(ranks) == n for row in state for ranks in row)


def counted(rounds, chunks):
    """Rounds, tensors that the busiest rank sends, the largest of each round added."""
    sent = {}
    for moves in rounds:
        for end in (0, 1):
            assert len({move[end] for move in moves}) == len(moves)
        for at, _, what in moves:
            sent[at] = sent.get(at, 0) + len(what) / chunks
    path = sum(max(len(what) for *_, what in moves) for moves in rounds) / chunks
    return pytest.approx((len(rounds), max(sent.values(), default=0), path))


SCHEDULES = {
    "reduce + broadcast": (moves(collectives.reduce_broadcast), lambda n: 1),
    "chunked ring": (moves(collectives.chunked_ring), lambda n: n),
    "binomial tree": (moves(collectives.tree), lambda n: 1),
    "halving and doubling": (halving, lambda n: 2 ** (n.bit_length() - 1)),
}


@pytest.mark.parametrize("n", MANY)
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_bill_is_that_of_its_schedule_counted_move_by_move(name, n):
    schedule, chunks = SCHEDULES[name]
    rounds = schedule(n)
    assert all_reduced(rounds, n, chunks(n))
    assert ALGORITHMS[name].bill(n)[:3] == counted(rounds, chunks(n))


@pytest.mark.parametrize("n", MANY)
def test_a_ring_of_whole_tensors_is_billed_as_its_schedule(n):
    schedule = collectives.whole_ring(n)
    rounds, busiest = len(schedule.rounds), schedule.busiest
    assert ALGORITHMS["whole-tensor ring"].bill(n)[:3] == (rounds, busiest, rounds)
    twice = ALGORITHMS["whole-tensor ring, 2 passes"].bill(n)[:3]
    assert twice == (2 * rounds, 2 * busiest, 2 * rounds)


@pytest.mark.parametrize("n", MANY)
def test_a_parameter_server_is_a_root_beside_the_workers(n):
    server, root = ALGORITHMS["parameter server"], ALGORITHMS["reduce + broadcast"]
    assert server.bill(n) == root.bill(n + 1)


def test_the_busiest_of_8_ranks_sends_the_tensors_that_the_lesson_tells():
    tensors = {
        name: algorithm.bill(8).tensors for name, algorithm in ALGORITHMS.items()
    }
    assert tensors == {
        "reduce + broadcast": 7,
        "parameter server": 8,
        "whole-tensor ring": 7,
        "whole-tensor ring, 2 passes": 14,
        "chunked ring": 1.75,
        "binomial tree": 3,
        "double binary tree": 2,
        "halving and doubling": 1.75,
    }


# --- two trees


def two_trees(n):
    """The parent of each rank but 0 in two trees: none is inner in both."""

    def parent(rank):
        bit = rank & -rank
        up = (rank ^ bit) | bit * 2
        return up if up < n else rank ^ bit

    ranks = range(1, n)
    turned = {0: 0} | {r: n - r if n % 2 else r % (n - 1) + 1 for r in ranks}
    return {r: parent(r) for r in ranks}, {turned[r]: turned[parent(r)] for r in ranks}


def parities(trees):
    """Even or odd rounds for each edge, so that no rank sends or gets two at once."""
    edges = [(tree, rank) for tree in (0, 1) for rank in trees[tree]]
    colors = {}

    def color(edge, parity):
        if edge in colors:
            assert colors[edge] == parity
            return
        colors[edge], (tree, rank) = parity, edge
        for other, child in set(edges) - {edge}:
            if child == rank or trees[other][child] == trees[tree][rank]:
                color((other, child), 1 - parity)

    for edge in sorted(edges, key=lambda edge: trees[edge[0]][edge[1]]):
        if edge not in colors:  # edges of rank 0 come first: that of tree 0 is even
            color(edge, edge[0])
    return colors


def broadcast(n, blocks):
    """Rounds until all ranks have all blocks, and how many each rank has sent."""
    trees, sent = two_trees(n), [0] * n
    colors = parities(trees)
    # in both trees blocks come in order, so their number says which
    have = [[(blocks + 1 - tree) // 2] + [0] * (n - 1) for tree in (0, 1)]
    for turn in itertools.count():
        if sum(map(sum, have)) == n * blocks:
            return turn, sent
        ready = [
            (tree, rank, parent)
            for tree in (0, 1)
            for rank, parent in trees[tree].items()
            if colors[tree, rank] == turn % 2 and have[tree][rank] < have[tree][parent]
        ]
        for tree, rank, parent in ready:
            have[tree][rank] += 1
            sent[parent] += 1


@pytest.mark.parametrize("blocks", [1, 2, 3, 8])
def test_two_trees_need_no_more_rounds_than_their_bill(blocks):
    spare = []
    for n in MANY[1:]:
        bill = ALGORITHMS["double binary tree"].bill(n)
        rounds = bill.rounds + bill.per_block * (blocks - 1)
        spare.append(rounds / 2 - broadcast(n, blocks)[0])
    assert min(spare) == 0 and max(spare) <= 2


@pytest.mark.parametrize("n", MANY)
def test_the_busiest_rank_of_two_trees_sends_two_tensors_at_most(n):
    _, sent = broadcast(n, 4)
    # in the reduce each rank but 0 sends its tensor once, a half up each tree
    busiest = max(count / 4 + (rank > 0) for rank, count in enumerate(sent))
    assert ALGORITHMS["double binary tree"].bill(n).tensors == busiest * (n > 1)


def test_two_trees_take_as_long_as_with_the_best_number_of_blocks():
    algorithm = ALGORITHMS["double binary tree"]
    for size in (4, 10**5, 10**7, 10**9):
        best = min(
            (10 + 2 * (k - 1)) * (1e-5 + size / k * 1e-9) for k in range(1, 2000)
        )
        assert algorithm.seconds(8, size, link=LINK) == pytest.approx(best, rel=0.01)


# --- seconds


def test_seconds_are_rounds_of_alpha_and_the_bytes_of_the_path():
    ring = ALGORITHMS["chunked ring"]
    assert ring.seconds(4, "1 MB", link=LINK) == pytest.approx(6e-5 + 1.5e-3)
    assert ring.seconds(1, "1 MB", link=LINK) == 0


def test_a_link_is_found_by_its_name():
    ring = ALGORITHMS["chunked ring"]
    seconds = ring.seconds(8, 10**6, link=LINKS["NVLink3"])
    assert ring.seconds(8, 10**6, link="nvlink 3.0") == seconds


def test_at_the_crossover_both_take_equally_long_and_the_tree_wins_below():
    tree, ring = ALGORITHMS["binomial tree"], ALGORITHMS["chunked ring"]
    size = crossover("binomial tree", "chunked ring", world_size=8, link=LINK)
    # 6 α + 6 β m = 14 α + 1.75 β m
    assert size == pytest.approx(8e-5 / 4.25e-9)
    assert crossover(ring, tree, world_size=8, link=LINK) == pytest.approx(size)
    assert tree.seconds(8, size / 2, link=LINK) < ring.seconds(8, size / 2, link=LINK)


def test_a_crossover_with_two_trees_is_where_both_take_equally_long():
    names = "double binary tree", "chunked ring"
    size = crossover(*names, world_size=64, link=LINK)
    trees, ring = (ALGORITHMS[name].seconds(64, size, link=LINK) for name in names)
    assert trees == pytest.approx(ring, rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 8])
def test_there_is_no_crossover_where_one_always_wins(n):
    assert (
        crossover("halving and doubling", "chunked ring", world_size=n, link=LINK)
        is None
    )


@pytest.mark.parametrize("n", [0, -1, 2.0, "8"])
def test_a_number_of_ranks_that_cannot_be_is_refused(n):
    with pytest.raises(UsageError, match=f"over {n!r} ranks: world_size is a whole"):
        ALGORITHMS["chunked ring"].seconds(n, 1, link=LINK)


def test_an_unknown_algorithm_is_refused_with_those_that_there_are():
    with pytest.raises(UsageError, match="algorithm 'rong': known are .*tree"):
        find_algorithm("rong")


# --- α and β fitted

SIZES = [4**k for k in range(1, 14)]
MEASURED = Link("measured", bandwidth=2e9, latency=9e-5, source="")


def noisy(name, n, spread):
    """Seconds of an algorithm, each wrong by up to `spread` of itself."""
    draw = random.Random(0)
    times = (ALGORITHMS[name].seconds(n, size, link=MEASURED) for size in SIZES)
    return [time * draw.uniform(1 - spread, 1 + spread) for time in times]


def test_a_fit_finds_the_alpha_and_beta_that_times_were_made_of():
    costs = fit(SIZES, noisy("chunked ring", 5, 0), world_size=5)
    assert (costs.alpha, costs.beta) == pytest.approx((9e-5, 5e-10))
    assert costs.residuals == pytest.approx([0] * 13, abs=1e-9)


def test_a_fit_stands_noise_at_small_and_large_sizes_alike():
    costs = fit(SIZES, noisy("chunked ring", 4, 0.1), world_size=4)
    assert (costs.alpha, costs.beta) == pytest.approx((9e-5, 5e-10), rel=0.1)
    assert max(map(abs, costs.residuals)) < 0.2


def test_of_repeated_measurements_the_median_counts():
    times = noisy("chunked ring", 2, 0)
    costs = fit(SIZES * 3, [*times, *times, *(9 * time for time in times)])
    assert costs == fit(SIZES, times)


def test_neither_alpha_nor_beta_is_negative():
    assert fit([1000, 2000], [1e-3, 3e-3]).alpha == 0
    slow_start = fit([1000, 2000], [3e-3, 1e-3])
    assert slow_start.beta == 0
    assert slow_start.link.bandwidth == float("inf")


def test_the_link_of_a_fit_has_the_costs_of_other_algorithms():
    link = fit(SIZES, noisy("chunked ring", 2, 0)).link
    assert (link.latency, link.bandwidth) == pytest.approx((9e-5, 2e9))
    assert ALGORITHMS["binomial tree"].bill(8).rounds * 9e-5 == pytest.approx(
        ALGORITHMS["binomial tree"].seconds(8, 1, link=link), rel=1e-3
    )


def test_times_that_were_held_back_stand_beside_the_same_alpha_and_beta():
    costs = fit(SIZES, noisy("chunked ring", 2, 0))
    other = costs.against([2000], [(18e-5 + 1e-6) / 1.25])
    assert other.alpha == costs.alpha and other.points[0][0] == 2000
    assert other.residuals == pytest.approx([0.25])


def test_a_fit_shows_its_errors_size_by_size():
    costs = fit([1000, 2000], [2e-3, 3e-3]).against([1000, 4000], [4e-3, 5e-3])
    assert repr(costs) == (
        "<Fit chunked ring of 2 ranks: α = 500 µs, β = 1e+03 ns per byte,"
        " errors -50 % to +0 %>"
    )
    table = costs._repr_html_()
    assert "<b>1 kB</b></td><td>4 ms</td><td>2 ms</td><td>-50 %</td>" in table


@pytest.mark.parametrize(
    ("sizes", "seconds", "words"),
    [
        ([4, 4], [1, 1], "to the times of 1 size: .* two or more sizes"),
        ([], [], "to the times of 0 sizes"),
        ([4, 8], [1], "to 2 sizes and 1 time: give one time for each"),
        ([4, 8], [1, -1], "8 bytes in -1.0 s"),
        ([4, 8], [1, float("nan")], "8 bytes in nan s"),
        ([4, 8], [1, float("inf")], "8 bytes in inf s"),
        ([4, 0], [1, 1], "cannot use 0 as a size"),
    ],
)
def test_what_no_line_can_be_fitted_to_is_refused(sizes, seconds, words):
    with pytest.raises(UsageError, match=words):
        fit(sizes, seconds)


def test_one_rank_has_no_alpha_and_beta():
    with pytest.raises(UsageError, match="1 rank, which sends nothing"):
        fit(SIZES, SIZES, world_size=1)


# --- the benchmark


def test_each_size_of_the_benchmark_is_fitted_held_back_or_too_small():
    parts = all_reduce.groups(4)
    assert sorted(sum(parts.values(), [])) == sorted(all_reduce.SIZES)
    assert parts["too small"] == [16, 8, 4]
    assert parts["fitted"][:2] == [2**26, 2**24]


def test_the_benchmark_tells_no_errors_where_the_model_holds():
    ring, root = ALGORITHMS["chunked ring"], ALGORITHMS["reduce + broadcast"]
    times = {
        n: [[ring.seconds(n, size, link=MEASURED) for size in all_reduce.SIZES]] * 3
        for n in (2, 4)
    }
    ways = {
        (n, name, size): [algorithm.seconds(n, size, link=MEASURED)] * 2
        for n in times
        for name, algorithm in zip(all_reduce.WAYS, (ring, ring, root))
        for size in all_reduce.COMPARED
    }
    rows = all_reduce.describe(times, ways).splitlines()
    assert (
        "| 4 | 90 (90 to 90) | 0.5 (0.5 to 0.5) | 0 (0 to 0) | 0 (0 to 0) | 3 of 3 |"
        in rows
    )
    assert "| 4 | 64 MiB | 50.9 ms | 1.00 × | 3.97 × | 1.00 × | 3.97 × |" in rows
    assert sum("held back" in row for row in rows) == 13 + 11


def test_all_ways_of_the_benchmark_give_the_sum():
    times = launch(all_reduce.time_ways, world_size=3, sizes=[64], rounds=1)
    assert times[0].keys() == {(name, 64) for name in all_reduce.WAYS}
