"""Nodes with their GPUs: who a rank is, and what leaves a node in an all-reduce."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

from course_lib.accelerators.collectives import Schedule, chunked_ring
from course_lib.colors import RANK_COLORS
from course_lib.errors import UsageError
from course_lib.scenes.chunks import pairs, tensors
from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.lanes import arrows
from course_lib.scenes.scene import WIDTH, Scene, several, switched
from course_lib.text import listed, ranks_named, short

_MOST_NODES, _MOST_GPUS = 4, 8
_MOST = 24  # ranks: with more the page would be too large
_BOX, _CARD, _CHIP, _PITCH = 156, 114, 48, 36
_IN, _LANE, _OUT = -9, 6, 20  # of lines beside a GPU: from its left, from its right
_ON, _BACK = 40, 30  # heights of lines to the next node, and back to the first
_TOP, _HEAD = 90, 56  # where nodes begin, and in them their GPUs
_OVER = "line communicate"


class NodeGrid(NamedTuple):
    """Nodes beside each other below the network, the GPUs of each below each other."""

    gpus: tuple[int, ...]

    @property
    def ranks(self) -> list[tuple[int, int]]:
        """Node rank and local rank of each rank, in order."""
        return [(node, n) for node, count in enumerate(self.gpus) for n in range(count)]

    @property
    def even(self) -> bool:
        """Whether all nodes have as many GPUs."""
        return len({*self.gpus}) == 1

    def left(self, node) -> float:
        """Where the GPUs of a node begin."""
        return WIDTH / len(self.gpus) * (node + 0.5) - _BOX / 2 + 14

    def middle(self, local) -> float:
        """The middle of a GPU, with -1 of the agent."""
        return _TOP + _HEAD + _PITCH * local + 16


def nodes(count=(2, 1, 3, 4), *, per_node=(2, 4), gpus=None) -> Scene:
    """Ranks on several nodes: they start, meet, take a device, add up a tensor.

    There are `count` nodes with `per_node` GPUs; both are a value, or a list for a
    slider, whose first is shown first. `gpus=[2, 1]` says instead how many each node
    has. In the end: how many tensors each node sends over the network, in an
    all-reduce by one ring through all ranks, and in one on two levels (inside the
    nodes, between, inside), which is for nodes with as many GPUs each.

    Errors: `UsageError` unless there are 1 to 4 nodes with 1 to 8 GPUs, 24 in all.
    """
    if gpus is not None:
        own = checked_gpus(gpus)
        return Scene(_moments(NodeGrid(own)), **_settings([own]))
    grids = {
        (n, g): checked_gpus([g] * min(n, 9) if type(n) is int else short(n))
        for n in several(count)
        for g in several(per_node)
    }
    return switched(
        lambda **at: _moments(NodeGrid(grids[tuple(at.values())])),
        {"nodes": count, "GPUs per node": per_node},
        **_settings(grids.values()),
    )


def _settings(grids):
    rows = max(chain(*grids), default=1)
    height = _TOP + _HEAD + _PITCH * rows + 4
    return {"height": height, "source": "computed", "seconds": 2.5}


def checked_gpus(gpus) -> tuple[int, ...]:
    """The numbers of GPUs of the nodes.

    Errors: `UsageError` unless they are 1 to 4 numbers from 1 to 8, 24 in all.
    """
    fits = isinstance(gpus, list | tuple) and 1 <= len(gpus) <= _MOST_NODES
    fits = fits and all(type(g) is int and 1 <= g <= _MOST_GPUS for g in gpus)
    if not fits or sum(gpus) > _MOST:
        raise UsageError(
            f"cannot show nodes with {short(gpus)} GPUs: the figure has room for 1 to "
            f"{_MOST_NODES} nodes with 1 to {_MOST_GPUS} GPUs, {_MOST} in all: [2, 2]"
        )
    return tuple(gpus)


def crossing(plan: Schedule, gpus: Sequence[int]) -> list[Fraction]:
    """How many tensors each node sends to others, in a schedule of all their ranks."""
    home = [node for node, _ in NodeGrid(tuple(gpus)).ranks]
    sent = [Fraction(0)] * len(gpus)
    for move in chain(*plan.rounds):
        if home[move.source] != home[move.target]:
            sent[home[move.source]] += Fraction(len(move.chunks), plan.chunks)
    return sent


# --- what is to be seen


def _moments(grid):
    """The ranks start, then send: titles, with what there is beside the ranks."""
    title = f"GPUs of the nodes: {listed(grid.gpus)}. No rank runs yet."
    yield Moment(title, _ranks(grid, seen=False))
    for title, items in _start(grid):
        yield Moment(title, [*_ranks(grid), *items])
    yield _asking(grid)
    for title, items in _all_reduce(grid) if len(grid.gpus) > 1 else ():
        yield Moment(title, [*_ranks(grid), *items])


def _start(grid):
    yield "The agent of each node starts one process for each of its GPUs.", ()
    (node, local), last = grid.ranks[-1], len(grid.ranks) - 1
    before = f"node rank × {grid.gpus[0]}" if grid.even else "GPUs of the nodes before"
    title = f"Rank = {before} + local rank. Rank {last} is local rank {local} of node "
    yield f"{title}{node}: it computes on cuda:{local} of this node.", ()
    title = "The ranks meet at MASTER_ADDR:MASTER_PORT: a store on node 0 keeps what "
    yield f"{title}they must know of each other.", _meeting(grid)


def _asking(grid):
    """Each rank asks for the device of its own number."""
    wrong = [rank for rank, (n, _) in enumerate(grid.ranks) if rank >= grid.gpus[n]]
    title = "On one node data.to(rank) works: rank and local rank are the same."
    if wrong:
        title = "data.to(rank) means cuda:rank, which is missing for "
        title += f"{ranks_named(wrong)}. data.to(local_rank) is right."
    return Moment(title, _ranks(grid, wrong=wrong))


def _all_reduce(grid):
    """By one ring through all ranks, and on two levels: inside, between, inside."""
    ranks, count = len(grid.ranks), len(grid.gpus)
    [flat, *_] = map(tensors, crossing(chunked_ring(ranks), grid.gpus))
    ways = [[(n, n + 1) for n in range(gpus - 1)] for gpus in grid.gpus]
    hops = _hops(grid, [[gpus - 1] for gpus in grid.gpus], [0])
    title = f"All-reduce by one ring: {count} of its {ranks} hops leave a node. Over "
    title += f"each of them go {flat}."
    yield title, [*_inside(grid, ways), *hops, *_bills(grid, f"sends {flat}")]
    if grid.even and grid.gpus[0] > 1:
        yield from _two_levels(grid, grid.gpus[0], flat)


def _two_levels(grid, each, flat):
    """Inside, between, inside, for nodes with as many GPUs each."""
    sent = chunked_ring(len(grid.gpus)).busiest
    part, whole, rows = tensors(sent / each), tensors(sent), range(each)
    inside = [*_inside(grid, [pairs(chunked_ring(each).rounds[0])] * len(grid.gpus))]
    hops = [*_hops(grid, [rows] * len(grid.gpus), rows)]
    yield "On two levels. First inside the nodes, a reduce-scatter.", inside
    title = "Then between the nodes, an all-reduce of each part, by a ring for each "
    title += f"local rank. Each GPU sends {part}."
    yield title, [*hops, *_bills(grid, f"sends {whole}")]
    yield "Last inside, an all-gather: each rank has the whole sum.", inside
    title = f"Over the network each node sends {flat} in one ring, all from one GPU; "
    title += f"on two levels {whole}, from {each} GPUs."
    yield title, [*hops, *_bills(grid, f"one ring: {flat}", f"two levels: {whole}")]


# --- where it is drawn


def _ranks(grid, *, seen=True, wrong=()):
    """All nodes with their ranks: on their GPUs, or unseen at the agents."""
    yield from _legend() if len(grid.gpus) > 1 else ()
    for node, count in enumerate(grid.gpus):
        x, high = grid.left(node), _HEAD + _PITCH * count + 2
        yield Item(f"box {node}", x - 14, _TOP, _BOX, high, "box")
        yield label(f"node {node}", (x, _TOP + 13), f"node {node}")
        at, role = (x, grid.middle(-1) - 12, _CHIP, 24), "card" if seen else "card gone"
        yield Item(f"agent {node}", *at, role, "agent", "starts the ranks of this node")
    for rank, (node, local) in enumerate(grid.ranks):
        x, y = grid.left(node), grid.middle(local)
        yield Item(f"gpu {node} {local}", x, y - 16, _CARD, 32, "card")
        device = f"no cuda:{rank}" if rank in wrong else f"cuda:{local}"
        at = x + _CHIP + 6
        yield label(f"device {node} {local}", (at, y + 7), device)
        if seen:
            yield label(f"local {node} {local}", (at, y - 7), f"local {local}")
        x, y = (x + 3, y) if seen else (x, grid.middle(-1))
        role = f"rank-{rank % len(RANK_COLORS)}{'' if seen else ' gone'}"
        role += " again" if rank in wrong else ""
        tip = f"rank {rank}: local rank {local} of node {node}, on its cuda:{local}"
        yield Item(f"rank {rank}", x, y - 12, _CHIP, 24, role, f"rank {rank}", tip)


def _legend():
    """The network, and what the two kinds of lines are."""
    yield Item("network", 0, 0, WIDTH, 50, "box")
    yield Item("over", 10, 12, 30, 0, "arrow communicate")
    yield label("over text", (46, 12), "between nodes: the network")
    yield Item("inside", 290, 12, 30, 0, "arrow")
    yield label("inside text", (326, 12), "inside a node: NVLink or PCIe")


def _inside(grid, ways):
    """Arrows beside the GPUs of each node: `ways` has pairs of local ranks for each."""
    for node, moves in enumerate(ways):
        middles = [grid.middle(local) for local in range(grid.gpus[node])]
        side = grid.left(node) + _CARD + _LANE
        for item in arrows(moves, middles, side, name=f"{node} "):
            # lanes below each other become lanes beside each other
            yield item._replace(x=item.y, y=item.x, w=0, h=item.w)


def _hops(grid, out, into):
    """From each node to the next: its local ranks `out[node]` send, `into` get."""
    for node, rows in enumerate(out):
        target = (node + 1) % len(out)
        y = _ON if target else _BACK
        yield from _leaving(grid, node, rows, up=y)
        x, end = grid.left(node) + _CARD + _OUT, grid.left(target) + _IN
        yield Item(f"over {node}", x, y, end - x, 0, _OVER)
        yield Item(f"in {node}", end, y, 0, grid.middle(into[-1]) - y, _OVER)
        for local in into:
            at = end, grid.middle(local), -_IN, 0
            yield Item(f"in {node} {local}", *at, "arrow communicate")


def _leaving(grid, node, rows, *, up, role=_OVER):
    """Lines from GPUs of a node up to a height."""
    x = grid.left(node) + _CARD
    for local in rows:
        yield Item(f"out {node} {local}", x, grid.middle(local), _OUT, 0, role)
    low = grid.middle(rows[-1])
    yield Item(f"out {node}", x + _OUT, low, 0, up - low, role)


def _meeting(grid):
    """Every rank has a way to the store beside the agent of node 0."""
    first, y = grid.left(0), grid.middle(-1)
    x, wide = first + _CHIP + 6, _CARD - _CHIP - 6
    yield Item("store", x, y - 12, wide, 24, "card", "store", "a TCPStore")
    yield from _leaving(grid, 0, range(grid.gpus[0]), up=y, role="line")
    yield Item("to store", first + _CARD + _OUT, y, -_OUT, 0, "arrow")
    for node, count in enumerate(grid.gpus[1:], 1):
        yield from _leaving(grid, node, range(count), up=_BACK)
    if node := len(grid.gpus) - 1:
        right, middle = grid.left(node) + _CARD + _OUT, x + wide / 2
        yield Item("back", right, _BACK, middle - right, 0, _OVER)
        yield Item("down", middle, _BACK, 0, y - 12 - _BACK, "arrow communicate")


def _bills(grid, *texts):
    """Lines above each node, all nodes alike."""
    for node in range(len(grid.gpus)):
        for line, text in enumerate(texts):
            yield label(f"bill {node} {line}", (grid.left(node), 60 + 15 * line), text)
