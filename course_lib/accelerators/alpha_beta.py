"""What an all-reduce costs by the α–β model: algorithms compared, α and β fitted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from course_lib.accelerators.hardware import Link, find_link, parse_size
from course_lib.display import number_table
from course_lib.errors import UsageError
from course_lib.text import duration, many, size


class Bill(NamedTuple):
    """What one all-reduce takes: rounds, and two counts of whole tensors.

    `tensors` are sent by the busiest rank. `path` adds up the largest message of each
    round, so rounds · α + path · β · bytes are its seconds. A tensor that flows in k
    blocks takes `per_block` rounds more for each block after the first.
    """

    rounds: int
    tensors: float
    path: float
    per_block: int = 0


def _star(n):
    # the root takes the tensors of the others one after the other, then sends the sum
    return Bill(2 * (n - 1), n - 1, 2 * (n - 1))


def _server(n):
    # n workers and a server beside them (Li et al., 2014, Scaling Distributed Machine
    # Learning with the Parameter Server); if rank 0 is the server, it is the row above
    return Bill(2 * n, n, 2 * n)


def _whole_ring(n):
    # each rank adds what comes from the left, and hands on what came, not the sum; as
    # all add in another order, their sums may differ in the last digits
    return Bill(n - 1, n - 1, n - 1)


def _two_passes(n):
    # as the chunked ring, but with the whole tensor in place of each chunk
    return Bill(2 * (n - 1), 2 * (n - 1), 2 * (n - 1))


def _ring(n):
    # n equal chunks: a reduce-scatter, then an all-gather (Patarasuk, Yuan, 2009,
    # Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations)
    share = 2 * (n - 1) / n
    return Bill(2 * (n - 1), share, share)


def _tree(n):
    # binomial: 2^i ranks have the sum after round i of the broadcast; the reduce is
    # its mirror (Thakur, Rabenseifner, Gropp, 2005)
    height = _height(n)
    return Bill(2 * height, height, 2 * height)


def _two_trees(n):
    # reduce, then broadcast, each over two binary trees that take turns: a block goes
    # down one of them in 2 rounds per edge, 1 for the edge to its root. A bound from
    # above (Sanders, Speck, Träff, 2009, Two-tree Algorithms for Full Bandwidth
    # Broadcast, Reduction and Scan). The busiest rank sends both halves up, and a half
    # to each of its two children; below 4 ranks, none has two
    if n == 1:
        return Bill(0, 0, 0)
    rounds = 2 * (2 * _height(n) - 1)
    return Bill(rounds, min(n / 2, 2), rounds, per_block=2)


def _halving(n):
    # Rabenseifner, in Thakur, Rabenseifner, Gropp, 2005. As in MPICH, each rank beyond
    # a power of two first adds its whole tensor to a neighbour's, and gets the sum last
    power = 2 ** (n.bit_length() - 1)
    rounds, share = 2 * _height(power), 2 * (power - 1) / power
    if n == power:
        return Bill(rounds, share, share)
    return Bill(rounds + 2, share + 1, share + 2)


def _height(n):
    """log2 of n, rounded up."""
    return (n - 1).bit_length()


@dataclass(frozen=True)
class Algorithm:
    """One way to all-reduce a tensor of each of `world_size` ranks.

    In a round each rank sends at most one message and gets at most one (Hockney, 1994,
    The Communication Challenge for MPP: Intel Paragon and Meiko CS-2; Thakur,
    Rabenseifner, Gropp, 2005, Optimization of Collective Communication Operations in
    MPICH). All links are alike and none is shared; additions take no time.
    """

    name: str
    bill: Callable[[int], Bill]

    def seconds(
        self, world_size: int, bytes: float | str, *, link: Link | str
    ) -> float:
        """Return seconds for so many bytes, `"25 MB"`, over a `link`, `"NVLink3"`.

        A tensor that flows in blocks is cut into as many as make it quickest, a real
        number.
        """
        if not isinstance(world_size, int) or world_size < 1:
            raise UsageError(
                f"cannot all-reduce over {world_size!r:.40} ranks: world_size is a"
                " whole number, 1 or more."
            )
        return _seconds(self.bill(world_size), parse_size(bytes), find_link(link))

    def __repr__(self):
        bill = self.bill(8)
        costs = f"{bill.tensors:g} tensors sent by the busiest"
        return f"<Algorithm {self.name}: on 8 ranks {bill.rounds} rounds, {costs}>"


def _seconds(bill, count, link):
    delay, whole = link.latency, count / link.bandwidth
    # k blocks take (rest + per_block · k) · (delay + whole / k)
    rest = bill.rounds - bill.per_block
    if bill.per_block and rest * whole > bill.per_block * delay:
        return ((rest * delay) ** 0.5 + (bill.per_block * whole) ** 0.5) ** 2
    return bill.rounds * delay + bill.path * whole


_BILLS = {
    "reduce + broadcast": _star,
    "parameter server": _server,
    "whole-tensor ring": _whole_ring,
    "whole-tensor ring, 2 passes": _two_passes,
    "chunked ring": _ring,
    "binomial tree": _tree,
    "double binary tree": _two_trees,
    "halving and doubling": _halving,
}
ALGORITHMS = {name: Algorithm(name, bill) for name, bill in _BILLS.items()}
_MEASURED = ALGORITHMS["chunked ring"]  # what `fit` is given the times of


def find_algorithm(name: str | Algorithm) -> Algorithm:
    """Return an algorithm by its name in `ALGORITHMS`."""
    if isinstance(name, Algorithm):
        return name
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    raise UsageError(
        f"cannot look up the algorithm {name!r:.40}: known are {', '.join(ALGORITHMS)}."
    )


def crossover(
    first: str | Algorithm,
    second: str | Algorithm,
    *,
    world_size: int,
    link: Link | str,
) -> float | None:
    """Return the bytes at which two algorithms take equally long, or None.

    None says that the same one is quicker, or none, at 1 byte and at 1 PB.
    """
    bills = [find_algorithm(name).bill(world_size) for name in (first, second)]
    link = find_link(link)

    def first_wins(power):
        seconds = [_seconds(bill, 2**power, link) for bill in bills]
        return seconds[0] < seconds[1]

    low, high = 0.0, 50.0
    if first_wins(low) == first_wins(high):
        return None
    for _ in range(60):
        middle = (low + high) / 2
        if first_wins(middle) == first_wins(low):
            low = middle
        else:
            high = middle
    return 2**high


@dataclass(frozen=True)
class Fit:
    """α in seconds and β in seconds per byte, beside the times they were fitted to.

    `points` are pairs of bytes and seconds, of a chunked ring on `world_size` ranks.
    """

    alpha: float
    beta: float
    points: tuple[tuple[int, float], ...]
    world_size: int

    @property
    def link(self) -> Link:
        """Return what was fitted as a link, for costs of other algorithms and ranks."""
        bandwidth = 1 / self.beta if self.beta else math.inf
        source = f"fitted to {many(len(self.points), 'size')} of an all-reduce"
        return Link("fitted", bandwidth, self.alpha, source)

    @property
    def residuals(self) -> tuple[float, ...]:
        """Return relative errors of the model: 0.1 for a time that is 10 % too long."""
        return tuple(self._model(count) / time - 1 for count, time in self.points)

    def against(self, sizes: Iterable, seconds: Iterable) -> Fit:
        """Return the same α and β beside other times, such as some held back."""
        return replace(self, points=_points(sizes, seconds))

    def _model(self, count):
        return _MEASURED.seconds(self.world_size, count, link=self.link)

    def __repr__(self):
        return f"<Fit {self._title()}>"

    def _title(self):
        what = f"{_MEASURED.name} of {many(self.world_size, 'rank')}"
        low, high = (_percent(end(self.residuals)) for end in (min, max))
        beta = f"{self.beta * 1e9:.3g} ns per byte"
        return f"{what}: α = {duration(self.alpha)}, β = {beta}, errors {low} to {high}"

    def _repr_html_(self):
        rows = (
            (size(count), duration(time), duration(self._model(count)), _percent(error))
            for (count, time), error in zip(self.points, self.residuals)
        )
        heads = ("measured", "α and β", "error")
        return number_table(heads, rows, caption=self._title())


def _percent(share):
    return f"{round(100 * share):+d} %"


def fit(sizes: Iterable, seconds: Iterable, *, world_size: int = 2) -> Fit:
    """Fit α and β by the least squares of relative errors; neither is negative.

    Measured were all-reduces of `sizes` bytes in `seconds`, by chunked rings. Of a size
    that comes several times the median counts. Errors: `UsageError` for fewer than two
    sizes, and for what is no time.
    """
    points, bill = _points(sizes, seconds), _MEASURED.bill(world_size)
    if not bill.rounds:
        raise UsageError(
            "cannot fit α and β to 1 rank, which sends nothing: measure 2 or more."
        )
    if len(points) < 2:
        raise UsageError(
            f"cannot fit α and β to the times of {many(len(points), 'size')}: measure"
            " two or more sizes, such as 4 B and 1 MB."
        )
    rows = [(bill.rounds / time, bill.path * count / time) for count, time in points]
    alpha, beta = _least_squares(rows)
    return Fit(alpha, beta, points, world_size)


def _points(sizes, seconds):
    """Pairs of bytes and median seconds, in order of bytes."""
    sizes, seconds = list(sizes), list(map(float, seconds))
    if len(sizes) != len(seconds):
        raise UsageError(
            f"cannot fit α and β to {many(len(sizes), 'size')} and"
            f" {many(len(seconds), 'time')}: give one time for each size."
        )
    times = {}
    for count, time in zip(sizes, seconds):
        if not 0 < time < math.inf:
            raise UsageError(
                f"cannot fit α and β: {count} bytes in {time} s. A time is more than"
                " 0 s."
            )
        times.setdefault(parse_size(count), []).append(time)
    return tuple((count, statistics.median(times[count])) for count in sorted(times))


def _least_squares(rows):
    """Two numbers, none negative, with x · alpha + y · beta near 1 in each row."""
    x, y = map(sum, zip(*rows))
    xx, xy, yy = map(sum, zip(*((x * x, x * y, y * y) for x, y in rows)))
    scale = xx * yy - xy * xy
    alpha, beta = (x * yy - y * xy) / scale, (y * xx - x * xy) / scale
    if alpha < 0:
        return 0.0, y / yy
    return (x / xx, 0.0) if beta < 0 else (alpha, beta)
