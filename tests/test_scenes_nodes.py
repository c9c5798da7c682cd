"""Nodes: who a rank is, where it is drawn, and what leaves its node."""

from fractions import Fraction
from itertools import combinations

import pytest

from course_lib.accelerators.collectives import (
    Move,
    Schedule,
    all_gather,
    chunked_ring,
    reduce_scatter,
)
from course_lib.scenes import nodes
from course_lib.scenes.nodes import crossing
from tests.moments import items, shown
from tests.played import run

RUNS = nodes().runs
every = pytest.mark.parametrize(("count", "each"), RUNS)


def titles(count, each):
    return [moment.title for moment in RUNS[count, each]]


def boxes(moment):
    """What has a frame; cards lie on nodes and ranks on cards, as they should."""
    levels = {"node": [], "card": [], "rank": []}
    for item in shown(moment):
        kind = item.role.partition(" ")[0].partition("-")[0]
        kind = "node" if kind == "box" else kind
        if kind in levels:
            levels[kind].append(item)
    return levels


def apart(one, other):
    return (
        one.x + one.w <= other.x
        or other.x + other.w <= one.x
        or one.y + one.h <= other.y
        or other.y + other.h <= one.y
    )


def inside(inner, outer):
    return (
        outer.x <= inner.x <= inner.x + inner.w <= outer.x + outer.w
        and outer.y <= inner.y <= inner.y + inner.h <= outer.y + outer.h
    )


# --- who a rank is


@every
def test_a_rank_lies_on_the_gpu_of_its_local_rank(count, each):
    last = items(RUNS[count, each][-1])
    for rank in range(count * each):
        node, local = divmod(rank, each)
        place = last[f"rank {rank}"]
        assert place.text == f"rank {rank}"
        assert inside(place, last[f"gpu {node} {local}"])
        assert last[f"device {node} {local}"].text == f"cuda:{local}"
        assert last[f"local {node} {local}"].text == f"local {local}"
    assert f"rank {count * each}" not in last


def test_a_rank_comes_out_of_the_agent_of_its_node():
    before, after = map(items, RUNS[2, 2][:2])
    for rank, node in enumerate([0, 0, 1, 1]):
        assert "gone" in before[f"rank {rank}"].role
        assert before[f"rank {rank}"][1:3] == before[f"agent {node}"][1:3]
        assert "gone" not in after[f"rank {rank}"].role


def test_ranks_of_the_second_node_do_not_find_the_device_of_their_number():
    moment = RUNS[2, 2][4]
    devices = [i.text for i in moment.items if i.id.startswith("device")]
    assert devices == ["cuda:0", "cuda:1", "no cuda:2", "no cuda:3"]
    marked = [i.text for i in moment.items if "again" in i.role.split()]
    assert marked == ["rank 2", "rank 3"] and "missing for ranks 2, 3" in moment.title
    assert "works" in titles(1, 4)[-1]


def test_titles_say_how_a_rank_is_counted():
    assert titles(2, 2)[2].startswith(
        "Rank = node rank × 2 + local rank. Rank 3 is local rank 1 of node 1"
    )


# --- what leaves a node


def mapped(plan, ranks, chunks):
    """The rounds of a plan among some ranks; `chunks(chunk)` are those of the whole."""
    for moves in plan.rounds:
        yield [
            Move(ranks[m.source], ranks[m.target], chunks(m.chunks[0]), m.adds)
            for m in moves
        ]


def two_levels(count, each):
    """An all-reduce inside, between, inside, written out for all ranks."""
    size = count * each

    def together(groups):
        return [sum(moves, []) for moves in zip(*groups)]

    def of_part(part):
        return tuple(range(part * count, (part + 1) * count))

    own = [[node * each + local for local in range(each)] for node in range(count)]
    rails = [list(ranks) for ranks in zip(*own)]
    rounds = [
        *together(list(mapped(reduce_scatter(each), g, of_part)) for g in own),
        *together(
            list(mapped(chunked_ring(count), g, lambda c, r=r: (r * count + c,)))
            for r, g in enumerate(rails)
        ),
        *together(list(mapped(all_gather(each), g, of_part)) for g in own),
    ]
    every = (tuple(range(size)),) * size
    return Schedule("all-reduce", "two levels", size, tuple(rounds), every, every)


@pytest.mark.parametrize(("count", "each"), [run for run in RUNS if run[0] > 1])
def test_the_bills_are_those_of_schedules_that_give_the_sum(count, each):
    ranks = count * each
    plans = chunked_ring(ranks), two_levels(count, each)
    tensors = [[rank + 10 * n for n in range(ranks)] for rank in range(ranks)]
    sums = [[sum(column) for column in zip(*tensors)]] * ranks
    bills = []
    for plan in plans:
        assert run(plan, tensors) == sums
        sent = crossing(plan, each)
        bills.append(f"{round(float(sent), 3):g} tensor{'s' * (sent != 1)}")
    last = items(RUNS[count, each][-1])
    for node in range(count):
        drawn = [last[f"bill {node} {line}"].text for line in (0, 1)]
        assert drawn == [f"one ring: {bills[0]}", f"two levels: {bills[1]}"]
    assert titles(count, each)[-1] == (
        f"Over the network each node sends {bills[0]} in one ring, all from one GPU; "
        f"on two levels {bills[1]}, from {each} GPUs."
    )


@pytest.mark.parametrize(("count", "each"), [(2, 2), (3, 2), (4, 4), (2, 1)])
def test_a_hop_of_the_ring_sends_two_tensors_less_two_parts(count, each):
    ranks = count * each
    assert crossing(chunked_ring(ranks), each) == Fraction(2 * (ranks - 1), ranks)


@pytest.mark.parametrize(("count", "each"), [(2, 2), (3, 4)])
def test_the_ring_leaves_a_node_at_its_last_gpu_and_enters_at_the_first(count, each):
    moment = RUNS[count, each][5]
    at = items(moment)
    for node in range(count):
        out, into = at[f"out {node} {each - 1}"], at[f"in {node} 0"]
        card = at[f"gpu {node} {each - 1}"]
        assert (out.x, out.y) == (card.x + card.w, card.y + card.h / 2)
        first = at[f"gpu {(node + 1) % count} 0"]
        assert (into.x + into.w, into.y) == (first.x, first.y + first.h / 2)
        inner = [i for i in at if i.startswith(f"{node} arrow")]
        assert len(inner) == each - 1
    assert moment.title.startswith(
        f"All-reduce by one ring: {count} of its {count * each} hops leave a node."
    )


def test_one_node_has_less_to_show():
    assert len(titles(1, 4)) == 5


# --- the figure


@every
def test_nothing_leaves_the_figure_and_no_boxes_overlap(count, each):
    height = nodes().size[1]
    for moment in RUNS[count, each]:
        for item in moment.items:
            xs, ys = (item.x, item.x + item.w), (item.y, item.y + item.h)
            assert min(xs) >= 0 and max(xs) <= 640
            assert min(ys) >= 0 and max(ys) <= height
        for level in boxes(moment).values():
            for one, other in combinations(level, 2):
                assert apart(one, other), (moment.title, one.id, other.id)


def test_lines_over_the_network_do_not_lie_on_each_other():
    for moments in RUNS.values():
        for moment in moments[5:]:
            flat = [i for i in shown(moment) if i.id.startswith("over ") and i.w]
            spans = [(i.y, *sorted((i.x, i.x + i.w))) for i in flat if "line" in i.role]
            for (y, _, stop), (other, start, _) in combinations(sorted(spans), 2):
                assert y != other or stop < start


def test_sliders_have_all_combinations_and_two_nodes_of_two_are_shown_first():
    scene = nodes()
    assert scene.parameters == {"nodes": [1, 2, 3, 4], "GPUs per node": [2, 4]}
    assert scene.at == {"nodes": 2, "GPUs per node": 2}
    ranks = {
        values: sum(i.id.startswith("rank ") for i in moments[-1].items)
        for values, moments in scene.runs.items()
    }
    assert ranks == {(count, each): count * each for count, each in ranks}
    assert scene.source == "computed"


def test_the_page_is_small():
    assert len(nodes()._repr_html_()) < 60_000
