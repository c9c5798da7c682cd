"""Nodes with their GPUs: who a rank is, and what leaves a node in an all-reduce."""

from fractions import Fraction
from itertools import chain, product
from typing import NamedTuple

from course_lib.accelerators.collectives import Schedule, chunked_ring
from course_lib.colors import RANK_COLORS
from course_lib.scenes.arrows import arrows
from course_lib.scenes.collective import pairs, tensors_text
from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.scene import WIDTH, Scene, varied
from course_lib.text import listed, ranks_named

_NODES = (2, 1, 3, 4)
_GPUS = (2, 4)
_BOX, _CARD, _CHIP, _PITCH = 156, 114, 48, 36
_IN, _LANE, _OUT = -9, 6, 20  # of lines beside a GPU: from its left, from its right
_ON, _BACK = 40, 30  # heights of lines to the next node, and back to the first
_TOP, _HEAD = 90, 56  # where nodes begin, and in them their GPUs
_OVER = "line communicate"


class NodeGrid(NamedTuple):
    """Nodes beside each other below the network, the GPUs of each below each other."""

    nodes: int
    gpus: int

    @property
    def ranks(self) -> list[tuple[int, int]]:
        """Return node rank and local rank of each rank, in order."""
        return list(product(range(self.nodes), range(self.gpus)))

    def left(self, node) -> float:
        """Return where the GPUs of a node begin."""
        return WIDTH / self.nodes * (node + 0.5) - _BOX / 2 + 14

    def middle(self, local) -> float:
        """Return the middle of a GPU, with -1 of the agent."""
        return _TOP + _HEAD + _PITCH * local + 16


def nodes() -> Scene:
    """Play how ranks on several nodes start, meet, take a device, add up a tensor.

    In the end: how many tensors each node sends over the network, in an all-reduce by
    one ring through all ranks, and in one on two levels (inside the nodes, between,
    inside).
    """
    return varied(
        lambda **at: _moments(NodeGrid(*at.values())),
        {"nodes": _NODES, "GPUs per node": _GPUS},
        height=_TOP + _HEAD + _PITCH * max(_GPUS) + 4,
        source="computed",
        seconds=2.5,
    )


def crossing(plan: Schedule, gpus: int) -> Fraction:
    """Return how many tensors a node of so many GPUs sends to others in a schedule."""
    sent = Fraction(0)
    for move in chain(*plan.rounds):
        if move.source < gpus <= move.target:
            sent += Fraction(len(move.chunks), plan.chunks)
    return sent


# --- what is to be seen


def _moments(grid):
    """Let the ranks start, then send: titles, with what there is beside the ranks."""
    gpus = [grid.gpus] * grid.nodes
    title = f"GPUs of the nodes: {listed(gpus)}. No rank runs yet."
    yield Moment(title, _ranks(grid, seen=False))
    for title, items in _start(grid):
        yield Moment(title, [*_ranks(grid), *items])
    yield _asking(grid)
    for title, items in _all_reduce(grid) if grid.nodes > 1 else ():
        yield Moment(title, [*_ranks(grid), *items])


def _start(grid):
    yield "The agent of each node starts one process for each of its GPUs.", ()
    (node, local), last = grid.ranks[-1], len(grid.ranks) - 1
    title = f"Rank = node rank × {grid.gpus} + local rank. Rank {last} is local rank "
    title += f"{local} of node {node}: it computes on cuda:{local} of this node."
    yield title, ()
    title = "The ranks meet at MASTER_ADDR:MASTER_PORT: a store on node 0 keeps what "
    yield f"{title}they must know of each other.", _meeting(grid)


def _asking(grid):
    """Each rank asks for the device of its own number."""
    wrong = range(grid.gpus, len(grid.ranks))
    title = "On one node data.to(rank) works: rank and local rank are the same."
    if wrong:
        title = "data.to(rank) means cuda:rank, which is missing for "
        title += f"{ranks_named(wrong)}. data.to(local_rank) is right."
    return Moment(title, _ranks(grid, wrong=wrong))


def _all_reduce(grid):
    """By one ring through all ranks, and on two levels: inside, between, inside."""
    ranks = len(grid.ranks)
    flat = tensors_text(crossing(chunked_ring(ranks), grid.gpus))
    neighbours = [(local, local + 1) for local in range(grid.gpus - 1)]
    hops = _hops(grid, [grid.gpus - 1], [0])
    title = f"All-reduce by one ring: {grid.nodes} of its {ranks} hops leave a node. "
    title += f"Over each of them go {flat}."
    yield title, [*_inside(grid, neighbours), *hops, *_bills(grid, f"sends {flat}")]
    yield from _two_levels(grid, flat)


def _two_levels(grid, flat):
    """Inside the nodes, between, inside."""
    sent, each = chunked_ring(grid.nodes).busiest, grid.gpus
    part, whole = tensors_text(sent / each), tensors_text(sent)
    inside = list(_inside(grid, pairs(chunked_ring(each).rounds[0])))
    hops = list(_hops(grid, range(each), range(each)))
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
    yield from _legend() if grid.nodes > 1 else ()
    for node in range(grid.nodes):
        x, high = grid.left(node), _HEAD + _PITCH * grid.gpus + 2
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
    """Yield the network, and what the two kinds of lines are."""
    yield Item("network", 0, 0, WIDTH, 50, "box")
    yield Item("over", 10, 12, 30, 0, "arrow communicate")
    yield label("over text", (46, 12), "between nodes: the network")
    yield Item("inside", 290, 12, 30, 0, "arrow")
    yield label("inside text", (326, 12), "inside a node: NVLink or PCIe")


def _inside(grid, moves):
    """Arrows beside the GPUs of each node, for pairs of local ranks."""
    middles = [grid.middle(local) for local in range(grid.gpus)]
    for node in range(grid.nodes):
        side = grid.left(node) + _CARD + _LANE
        for item in arrows(moves, middles, side, name=f"{node} "):
            # lanes below each other become lanes beside each other
            yield item._replace(x=item.y, y=item.x, w=0, h=item.w)


def _hops(grid, out, into):
    """From each node to the next: its local ranks `out` send, `into` get."""
    for node in range(grid.nodes):
        target = (node + 1) % grid.nodes
        y = _ON if target else _BACK
        yield from _leaving(grid, node, out, up=y)
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
    yield from _leaving(grid, 0, range(grid.gpus), up=y, role="line")
    yield Item("to store", first + _CARD + _OUT, y, -_OUT, 0, "arrow")
    for node in range(1, grid.nodes):
        yield from _leaving(grid, node, range(grid.gpus), up=_BACK)
    if node := grid.nodes - 1:
        right, middle = grid.left(node) + _CARD + _OUT, x + wide / 2
        yield Item("back", right, _BACK, middle - right, 0, _OVER)
        yield Item("down", middle, _BACK, 0, y - 12 - _BACK, "arrow communicate")


def _bills(grid, *texts):
    """Lines above each node, all nodes alike."""
    for node in range(grid.nodes):
        for line, text in enumerate(texts):
            yield label(f"bill {node} {line}", (grid.left(node), 60 + 15 * line), text)
