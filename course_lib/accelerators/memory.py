"""Bytes held per device and kind, and what was copied between devices."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from course_lib.display import number_table
from course_lib.text import size

KINDS = ("parameters", "gradients", "optimizer state", "activations")


@dataclass(frozen=True)
class Transfer:
    """One copy from device `source` to `target` ("cpu", "vgpu:0"); times in seconds."""

    name: str
    source: str
    target: str
    bytes: int
    start: float
    stop: float


@dataclass(frozen=True)
class Change:
    """Bytes taken (+) or freed (−) on a device at `time` seconds, of one of `KINDS`."""

    time: float
    device: str
    kind: str
    bytes: int


@dataclass(frozen=True)
class Memory:
    """Bytes `held` per device and kind, and the `capacity` of each device in bytes."""

    held: Mapping[str, Mapping[str, int]]
    capacity: Mapping[str, int]
    source: str

    def total(self, device: str) -> int:
        """Return the bytes that are held on a device."""
        return sum(self.held[device].values())

    def __repr__(self) -> str:
        totals = (f"{d} {size(self.total(d))}" for d in self.held)
        return f"<Memory {self.source}: {', '.join(totals)}>"

    def _repr_html_(self) -> str:
        heads = (*KINDS, "in all", "capacity")
        return number_table(heads, map(self._row, self.held), caption=self.source)

    def _row(self, device):
        counts = [self.held[device].get(kind, 0) for kind in KINDS]
        counts += [self.total(device), self.capacity[device]]
        return device, *map(size, counts)


class Allocation:
    """Bytes that one storage takes up on a device, from `taken` to `freed` seconds."""

    __slots__ = ("bytes", "freed", "kind", "taken")

    def __init__(self, count: int, taken: float):
        self.bytes, self.taken = count, taken
        self.freed: float | None = None
        # a tensor may turn out to be a parameter or a gradient after it was made
        self.kind = "activations"


class Account:
    """What one device holds: bytes now, at the peak, and each allocation."""

    __slots__ = ("capacity", "held", "history", "peak", "returned", "used")

    def __init__(self, capacity: int):
        self.capacity, self.used, self.peak = capacity, 0, 0
        # a dict keeps the order, so that two runs give the same trace
        self.held: dict = {}
        self.history: list[Allocation] | None = None
        # a tensor may die in any thread and in the middle of any line: what it held is
        # only noted then, for the next one who looks
        self.returned = deque()

    def settle(self) -> None:
        """Take back the bytes of all storages that have been freed."""
        while self.returned:
            allocation = self.returned.popleft()
            self.used -= allocation.bytes
            self.held.pop(allocation, None)

    @property
    def free(self) -> int:
        """Return the free bytes, also after the capacity became less than is used."""
        return max(0, self.capacity - self.used)

    def fits(self, count: int) -> bool:
        """Return whether `count` more bytes are free."""
        if self.returned:
            self.settle()
        return self.used + count <= self.capacity

    def take(self, count: int, now: float) -> Allocation:
        """Allocate `count` bytes, which must fit."""
        allocation = Allocation(count, now)
        self.used += count
        self.peak = max(self.peak, self.used)
        self.held[allocation] = None
        if self.history is not None:
            self.history.append(allocation)
        return allocation

    def by_kind(self) -> dict[str, int]:
        """Return the bytes held now, for each of `KINDS`."""
        self.settle()
        kinds = dict.fromkeys(KINDS, 0)
        for allocation in self.held:
            kinds[allocation.kind] += allocation.bytes
        return kinds


def changes(device: str, held: Iterable[Allocation], start: float) -> list[Change]:
    """Return the changes that allocations made on a device, with `start` as time 0."""
    rows = []
    for part in held:
        where = device, part.kind
        rows.append(Change(max(part.taken - start, 0.0), *where, part.bytes))
        if part.freed is not None:
            rows.append(Change(part.freed - start, *where, -part.bytes))
    return sorted(rows, key=lambda change: change.time)
