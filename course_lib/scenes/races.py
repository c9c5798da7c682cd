"""A race of processes for one number: each read, each write, and what is lost."""

import math
import re
from typing import NamedTuple

from course_lib.errors import UsageError
from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.scene import Scene
from course_lib.text import many, rank_order

_MOST = {"process": 6, "addition": 60}  # that a figure has room for
_LEFT, _COLUMN, _TOP, _HIGH = 64, 80, 142, 176  # of 640, the width of a figure
_CARD = 44, 28


class Addition(NamedTuple):
    """A process reads the number `old` at `start`, writes `new` at `stop` (seconds)."""

    process: int | str
    old: float
    new: float
    start: float
    stop: float


class Access(NamedTuple):
    """A read or a write; `counter` is the number that it found there."""

    kind: str
    addition: Addition
    counter: float

    @property
    def time(self) -> float:
        """When it happened, in seconds."""
        return getattr(self.addition, "start" if self.kind == "read" else "stop")

    @property
    def lost(self) -> float:
        """How many updates of others a write takes away since its process read."""
        return self.counter - self.addition.old if self.kind == "write" else 0

    @property
    def left(self) -> float:
        """The number that is there afterwards."""
        return self.addition.new if self.kind == "write" else self.counter


def lost_updates(events) -> Scene:
    """Processes that add to one number without a lock or with one, as they were logged.

    `events` (a `Trace`, or a list of `Event`) has one for each addition: `rank` is the
    process, `name` what it read and wrote as "0 → 1", `start` and `stop` are when. A
    write that takes away what others added since its read is marked as lost.

    Errors: `UsageError` without an addition, for a name of another kind, and for more
    than 6 processes or 60 additions.
    """
    additions = [*map(_addition, events)]
    processes = sorted({addition.process for addition in additions}, key=rank_order)
    for noun, count in (("process", len(processes)), ("addition", len(additions))):
        if not 0 < count <= _MOST[noun]:
            raise UsageError(
                f"lost_updates() shows 1 to {many(_MOST[noun], noun)}: found {count:,}"
            )
    accesses = in_order(additions)
    moments = [Moment(title, items) for title, items in _moments(accesses, processes)]
    source = "measured: when each process read and wrote, and which number"
    return Scene(moments, height=_TOP + _HIGH + 8, source=source, seconds=1.2)


def in_order(additions: list[Addition]) -> list[Access]:
    """All reads and writes in the order in which they happened.

    A write is noted a moment after it happens. So where a read found a number that is
    not there yet, the write that left it comes first.
    """
    events = [(a.start, "read", a) for a in additions]
    events = sorted(events + [(a.stop, "write", a) for a in additions], key=_time)
    counter, accesses = events[0][2].old, []
    while events:
        event = events[0]
        if event[1] == "read" and event[2].old != counter:
            event = _writer(events, event[2].old, accesses) or event
        events.remove(event)
        accesses.append(Access(*event[1:], counter))
        counter = accesses[-1].left
    return accesses


def _time(event):
    return event[0]


def _writer(events, number, accesses):
    """The write that left this number, if its process has read but it stands later."""
    begun = {access.addition for access in accesses}
    for event in events:
        _, kind, addition = event
        if kind == "write" and addition.new == number and addition in begun:
            return event
    return None


def _addition(event):
    numbers = re.fullmatch(r"(\S+) → (\S+)", event.name)
    try:
        old, new = map(float, numbers.groups())
        if math.isfinite(old + new + event.start + event.stop):
            return Addition(event.rank, old, new, event.start, event.stop)
    except (AttributeError, ValueError):
        pass
    raise UsageError(
        "the name of an addition is what was read and written, such as '0 → 1': "
        f"found {event.name!r:.60}"
    )


def _moments(accesses, processes):
    places = _Places(accesses, processes)
    count = many(len(accesses) // 2, "addition")
    title = (
        f"The counter says {accesses[0].counter:g}; {many(len(processes), 'process')}"
    )
    yield f"{title} will make {count}.", places.items(0, moving=False)
    for number, access in enumerate(accesses, start=1):
        yield _title(access, accesses[:number]), places.items(number)
    lost = sum(access.lost for access in accesses)
    says = f"The counter says {accesses[-1].left:g} after {count}"
    items = places.items(len(accesses), moving=False)
    yield f"{says}: {_lost(lost) or 'nothing is lost'}.", items


def _title(access, past):
    who = _name(access.addition.process).capitalize()
    if access.kind == "read":
        reads = {a.addition for a in past[:-1] if a.kind == "read"}
        open_ = reads - {a.addition for a in past if a.kind == "write"}
        also = any(other.old == access.addition.old for other in open_)
        return f"{who} reads {access.addition.old:g}{', too' * also}."
    over = f" over {access.counter:g}: {_lost(access.lost)}" if access.lost > 0 else ""
    return f"{who} writes {access.addition.new:g}{over}."


def _lost(count):
    if count == 1:
        return "an update is lost"
    return f"{count:g} updates are lost" if count > 1 else ""


def _name(process):
    return f"process {process}" if isinstance(process, int) else process


class _Places:
    """Where things lie: the counter on top, processes side by side, time downward."""

    def __init__(self, accesses, processes):
        self.accesses, self.processes = accesses, processes
        self.width = min(150, (640 - _LEFT) / len(processes))
        middle = _LEFT + (len(processes) * self.width - 10) / 2
        self.counter = max(middle, 90) - _CARD[0] / 2, 6
        self.start = min(access.addition.start for access in accesses)
        stop = max(access.addition.stop for access in accesses)
        self.scale = _HIGH / ((stop - self.start) or 1)

    def items(self, count, *, moving=True):
        """What is to be seen after `count` accesses."""
        past = self.accesses[:count]
        open_ = {}
        for access in past:
            kept = access.addition if access.kind == "read" else None
            open_[access.addition.process] = kept
        counter = past[-1].left if past else self.accesses[0].counter
        yield Item("counter", *self.counter, *_CARD, "card", f"{counter:g}")
        yield from self._frame(past)
        yield from self._bars(past)
        for process in self.processes:
            yield self._card(process, open_.get(process), counter)
        if moving:
            yield self._arrow(past[-1])

    def _x(self, process):
        return _LEFT + self.processes.index(process) * self.width

    def _frame(self, past):
        x, y = self.counter
        written = sum(access.kind == "write" for access in past)
        lost = max(0, sum(access.lost for access in past))
        yield label("name", (x - 58, y + 14), "counter")
        score = f"{many(written, 'addition')}, {lost:g} lost"
        yield label("score", (x + 56, y + 14), score)
        yield label("start", (0, _TOP + 6), "0 s")
        yield label("stop", (0, _TOP + _HIGH - 6), f"{_HIGH / self.scale:.2g} s")
        for number, process in enumerate(self.processes):
            x, size = self._x(process), (self.width - 10, _TOP + _HIGH + 6 - _COLUMN)
            name = _name(process)
            yield Item(f"column {number}", x, _COLUMN, *size, "box", name)
            yield Item(f"hand {number}", *self._hand(process), *_CARD, "place")

    def _hand(self, process):
        return self._x(process) + (self.width - 10 - _CARD[0]) / 2, _COLUMN + 24

    def _card(self, process, addition, counter):
        """What a process has read; else its card lies on the counter."""
        number = self.processes.index(process)
        if addition is None:
            place, text, role = self.counter, counter, "card"
        else:
            place, text, role = self._hand(process), addition.old, f"rank-{number}"
        return Item(f"card {number}", *place, *_CARD, role, f"{text:g}")

    def _arrow(self, access):
        below = self.counter[0] + 22, self.counter[1] + _CARD[1] + 2
        ends = below, (self._hand(access.addition.process)[0] + 22, _COLUMN - 2)
        (x, y), (to_x, to_y) = ends if access.kind == "read" else ends[::-1]
        return Item("arrow", x, y, to_x - x, to_y - y, "arrow")

    def _bars(self, past):
        """Additions from read to write, or as far as it has come."""
        now = max((access.time for access in past), default=self.start)
        writes = {access.addition: access for access in past if access.kind == "write"}
        reads = [access.addition for access in past if access.kind == "read"]
        for addition in reads:
            yield self._bar(addition, writes.get(addition), now)

    def _bar(self, addition, write, now):
        number = self.processes.index(addition.process)
        y = _TOP + (addition.start - self.start) * self.scale
        stop = addition.stop if write else now
        high = max(2, (stop - addition.start) * self.scale)
        lost = write is not None and write.lost > 0
        text = f"{addition.old:g} → {addition.new:g}{', lost' * lost}" if write else ""
        role = f"rank-{number}{' again' * lost}"
        place = self._x(addition.process) + 5, y, self.width - 20, high
        tip = f"{_name(addition.process)} read {addition.old:g} at "
        tip += f"{addition.start - self.start:.3f} s"
        if write:
            tip += f", wrote {addition.new:g} at {addition.stop - self.start:.3f} s"
            tip += f", over {write.counter:g}" * lost
        name = f"addition {number} {addition.start}"
        return Item(name, *place, role, text if high >= 14 else "", tip)
