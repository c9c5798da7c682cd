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
    run,
)
from course_lib.errors import UsageError
from course_lib.scenes import nodes
from course_lib.scenes.machines import crossing
from tests.moments import items, shown, titles

SHAPES = [[1], [4], [2, 2], [2, 1], [1, 3, 2], [8, 8, 8], [6, 6, 6, 6], [1, 1]]


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


@pytest.mark.parametrize("gpus", SHAPES)
def test_a_rank_lies_on_the_gpu_of_its_local_rank(gpus):
    last = items(nodes(gpus=gpus).moments[-1])
    rank = 0
    for node, count in enumerate(gpus):
        for local in range(count):
            place = last[f"rank {rank}"]
            assert place.text == f"rank {rank}"
            assert inside(place, last[f"gpu {node} {local}"])
            assert last[f"device {node} {local}"].text == f"cuda:{local}"
            assert last[f"local {node} {local}"].text == f"local {local}"
            rank += 1
    assert f"rank {rank}" not in last


def test_a_rank_comes_out_of_the_agent_of_its_node():
    before, after = map(items, nodes(gpus=[2, 1]).moments[:2])
    for rank, node in enumerate([0, 0, 1]):
        assert "gone" in before[f"rank {rank}"].role
        assert before[f"rank {rank}"][1:3] == before[f"agent {node}"][1:3]
        assert "gone" not in after[f"rank {rank}"].role


def test_ranks_of_the_second_node_do_not_find_the_device_of_their_number():
    moment = nodes(gpus=[2, 3]).moments[4]
    devices = [i.text for i in moment.items if i.id.startswith("device")]
    assert devices == ["cuda:0", "cuda:1", "cuda:0", "no cuda:3", "no cuda:4"]
    marked = [i.text for i in moment.items if "again" in i.role.split()]
    assert marked == ["rank 3", "rank 4"] and "missing for ranks 3, 4" in moment.title
    assert "works" in nodes(gpus=[4]).moments[-1].title


def test_titles_say_how_a_rank_is_counted():
    assert titles(nodes(gpus=[2, 2]))[2].startswith(
        "Rank = node rank × 2 + local rank. Rank 3 is local rank 1 of node 1"
    )
    assert titles(nodes(gpus=[3, 1]))[2].startswith(
        "Rank = GPUs of the nodes before + local rank. Rank 3 is local rank 0 of node 1"
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


@pytest.mark.parametrize(("count", "each"), [(2, 2), (3, 2), (2, 4), (4, 4)])
def test_the_bills_are_those_of_schedules_that_give_the_sum(count, each):
    gpus, ranks = [each] * count, count * each
    plans = chunked_ring(ranks), two_levels(count, each)
    tensors = [[rank + 10 * n for n in range(ranks)] for rank in range(ranks)]
    sums = [[sum(column) for column in zip(*tensors)]] * ranks
    bills = []
    for plan in plans:
        assert run(plan, tensors) == sums
        [sent] = {*crossing(plan, gpus)}
        bills.append(f"{round(float(sent), 3):g} tensor{'s' * (sent != 1)}")
    last = items(nodes(gpus=gpus).moments[-1])
    for node in range(count):
        drawn = [last[f"bill {node} {line}"].text for line in (0, 1)]
        assert drawn == [f"one ring: {bills[0]}", f"two levels: {bills[1]}"]
    assert titles(nodes(gpus=gpus))[-1] == (
        f"Over the network each node sends {bills[0]} in one ring, all from one GPU; "
        f"on two levels {bills[1]}, from {each} GPUs."
    )


@pytest.mark.parametrize("gpus", [[2, 2], [2, 1], [1, 3, 2], [4, 4, 4, 4]])
def test_a_hop_of_the_ring_sends_two_tensors_less_two_parts(gpus):
    ranks = sum(gpus)
    assert crossing(chunked_ring(ranks), gpus) == [Fraction(2 * (ranks - 1), ranks)] * (
        len(gpus)
    )


@pytest.mark.parametrize("gpus", [[2, 2], [2, 1], [1, 3, 2]])
def test_the_ring_leaves_a_node_at_its_last_gpu_and_enters_at_the_first(gpus):
    moment = nodes(gpus=gpus).moments[5]
    at = items(moment)
    for node, count in enumerate(gpus):
        out, into = at[f"out {node} {count - 1}"], at[f"in {node} 0"]
        card = at[f"gpu {node} {count - 1}"]
        assert (out.x, out.y) == (card.x + card.w, card.y + card.h / 2)
        first = at[f"gpu {(node + 1) % len(gpus)} 0"]
        assert (into.x + into.w, into.y) == (first.x, first.y + first.h / 2)
        inner = [i for i in at if i.startswith(f"{node} arrow")]
        assert len(inner) == count - 1
    assert moment.title.startswith(
        f"All-reduce by one ring: {len(gpus)} of its {sum(gpus)} hops leave a node."
    )


def test_one_node_and_nodes_of_one_gpu_have_less_to_show():
    assert len(titles(nodes(gpus=[4]))) == 5
    assert titles(nodes(gpus=[1, 1]))[-1].endswith("Over each of them go 1 tensor.")


# --- the figure


@pytest.mark.parametrize("gpus", SHAPES)
def test_nothing_leaves_the_figure_and_no_boxes_overlap(gpus):
    scene = nodes(gpus=gpus)
    for moment in scene.moments:
        for item in moment.items:
            xs, ys = (item.x, item.x + item.w), (item.y, item.y + item.h)
            assert min(xs) >= 0 and max(xs) <= 640
            assert min(ys) >= 0 and max(ys) <= scene.size[1]
        for level in boxes(moment).values():
            for one, other in combinations(level, 2):
                assert apart(one, other), (moment.title, one.id, other.id)


def test_lines_over_the_network_do_not_lie_on_each_other():
    for gpus in ([2, 2], [4, 4, 4], [2, 2, 2, 2]):
        for moment in nodes(gpus=gpus).moments[5:]:
            flat = [i for i in shown(moment) if i.id.startswith("over ") and i.w]
            spans = [(i.y, *sorted((i.x, i.x + i.w))) for i in flat if "line" in i.role]
            for (y, _, stop), (other, start, _) in combinations(sorted(spans), 2):
                assert y != other or stop < start


def test_sliders_have_all_combinations_and_the_first_values_are_shown():
    scene = nodes([3, 1], per_node=[4, 2])
    assert scene.parameters == {"nodes": [1, 3], "GPUs per node": [2, 4]}
    assert scene.at == {"nodes": 3, "GPUs per node": 4}
    ranks = {
        values: sum(i.id.startswith("rank ") for i in moments[-1].items)
        for values, moments in scene.runs.items()
    }
    assert ranks == {(1, 2): 2, (1, 4): 4, (3, 2): 6, (3, 4): 12}
    assert nodes(2, per_node=2).parameters == {}
    assert scene.source == "computed"


@pytest.mark.parametrize(
    "scene", [nodes(), *(nodes(gpus=gpus) for gpus in SHAPES)], ids=str
)
def test_pages_are_small(scene):
    assert len(scene._repr_html_()) < 60_000


@pytest.mark.parametrize(
    "gpus", [[], [0], [2, 9], [1] * 5, [8, 8, 8, 8], 4, "22", [2.0], [True], {2: 2}]
)
def test_nodes_that_cannot_be_shown_are_refused(gpus):
    with pytest.raises(UsageError, match="room for 1 to 4 nodes with 1 to 8 GPUs"):
        nodes(gpus=gpus)


@pytest.mark.parametrize(
    ("count", "each"), [(0, 2), (5, 2), ("2", 2), (None, 2), (2, 0), (2, "4"), (2.0, 1)]
)
def test_numbers_that_cannot_be_shown_are_refused(count, each):
    with pytest.raises(UsageError, match="room for 1 to 4 nodes with 1 to 8 GPUs"):
        nodes(count, per_node=each)


def test_sliders_without_values_are_refused():
    with pytest.raises(UsageError, match="nodes: a slider needs at least one value"):
        nodes([])
