"""A race of processes for one number: each read, each write, and what is lost."""

import re
from typing import NamedTuple

from course_lib.errors import UsageError
from course_lib.scenes.items import Item, Moment, cut, fitting, label
from course_lib.scenes.scene import Scene
from course_lib.text import listed, many, rank_order

_MOST = {"process": 6, "addition": 60}  # that a figure has room for
_LEFT, _COLUMN, _TOP, _HIGH = 64, 80, 142, 176  # of 640, the width of a figure
_CARD = 44, 28
_NUMBER = r"(-?\d+(?:\.\d+)?)"
_LOGGED = re.compile(f"{_NUMBER} → {_NUMBER}")


class Addition(NamedTuple):
    """A process reads the number `old` at `start`, writes `new` at `stop` (seconds)."""

    process: int | str
    old: float
    new: float
    start: float
    stop: float


class Access(NamedTuple):
    """A read or a write; `counter` is the number that it found there.

    After a write, additions that it overwrites are `lost`; those that a process has
    read before, and may write back, are only `held`.
    """

    kind: str
    addition: Addition
    counter: float
    lost: tuple = ()
    held: tuple = ()

    @property
    def time(self) -> float:
        """Return when it happened, in seconds."""
        return getattr(self.addition, "start" if self.kind == "read" else "stop")

    @property
    def left(self) -> float:
        """Return the number that is there afterwards."""
        return self.addition.new if self.kind == "write" else self.counter


def lost_updates(events) -> Scene:
    """Play processes that add to one number, as they were logged.

    `events` (a `Trace`, or a list of `Event`) has one for each addition: `rank` is the
    process, `name` what it read and wrote as "0 → 1", `start` and `stop` are when. An
    addition is marked as lost from the moment on in which neither the counter nor a
    process has a number that contains it.

    Errors: `UsageError` without an addition, for a name of another kind, and for more
    than 6 processes or 60 additions.
    """
    additions = _additions(events)
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
    """Return all reads and writes in the order in which they happened.

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
    return list(_with_losses(accesses))


def _with_losses(accesses):
    """Each number contains the additions of the one that was read for it, and its own.

    What is in no number that the counter or a process has will never come back.
    """
    versions = [(accesses[0].counter, frozenset())]
    read, gone = {}, frozenset()
    for access in accesses:
        addition = access.addition
        if access.kind == "read":
            found = (v for v in reversed(versions) if v[0] == addition.old)
            read[addition] = next(found, versions[-1])[1]
        else:
            before, now = versions[-1][1], read.pop(addition) | {addition}
            versions.append((addition.new, now))
            known = now.union(*read.values())
            made = frozenset().union(*(them for _, them in versions))
            lost, gone = made - known - gone, made - known
            held = tuple(before & known - now)
            access = access._replace(lost=tuple(sorted(lost, key=_stop)), held=held)
        yield access


def _stop(addition):
    return addition.stop


def _time(event):
    return event[0]


def _writer(events, number, accesses):
    """Find the write that left this number, if it stands later and was begun."""
    begun = {access.addition for access in accesses}
    for event in events:
        _, kind, addition = event
        if kind == "write" and addition.new == number and addition in begun:
            return event
    return None


def _additions(events):
    additions = list(map(_addition, events))
    begun = [(addition.process, addition.start) for addition in additions]
    for process, start in begun:
        if begun.count((process, start)) > 1:
            who = _name(process)
            raise UsageError(f"{who} begins two additions at one time, {start:g} s")
    return additions


def _addition(event):
    numbers = _LOGGED.fullmatch(event.name)
    if not numbers:
        raise UsageError(
            "the name of an addition is what was read and written, such as '0 → 1': "
            f"found {event.name!r:.60}"
        )
    read, written = map(float, numbers.groups())
    return Addition(event.rank, read, written, event.start, event.stop)


def _moments(accesses, processes):
    places = _Places(accesses, processes)
    count, crowd = many(len(accesses) // 2, "addition"), many(len(processes), "process")
    title = f"The counter says {accesses[0].counter:g}; {crowd} will make {count}."
    yield title, places.items(0, moving=False)
    for number, access in enumerate(accesses, start=1):
        yield _title(access, accesses[:number]), places.items(number)
    lost = sum(len(access.lost) for access in accesses)
    says = f"The counter says {accesses[-1].left:g} after {count}"
    items = places.items(len(accesses), moving=False)
    yield f"{says}: {_lost(lost) or 'nothing is lost'}.", items


def _title(access, past):
    who = _name(access.addition.process).capitalize()
    if access.kind == "read":
        reads = {a.addition for a in past[:-1] if a.kind == "read"}
        open_ = reads - {a.addition for a in past if a.kind == "write"}
        also = any(other.old == access.addition.old for other in open_)
        return f"{who} reads {access.addition.old:g}{', too' if also else ''}."
    return f"{who} writes {access.addition.new:g}{_over(access)}."


def _over(access):
    """Say what a write takes away, if it does."""
    over = f" over {access.counter:g}"
    if access.lost:
        return f"{over}: {_whose(access.lost)} lost"
    if access.held:
        return f"{over}: {_whose(access.held)} now only in what others have read"
    return ""


def _whose(additions):
    """Say `the update of process 1 is`, `2 updates, of process 0 and another, are`."""
    names = dict.fromkeys(_name(addition.process) for addition in additions)
    if len(additions) == 1:
        return f"the update of {listed(names)} is"
    if len(names) == 1:
        return f"{len(additions)} updates of {listed(names)} are"
    return f"{len(additions)} updates, of {listed(names)}, are"


def _lost(count):
    if count == 1:
        return "an update is lost"
    return f"{count} updates are lost" if count > 1 else ""


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
        """Yield what is to be seen after `count` accesses."""
        past = self.accesses[:count]
        open_ = {}
        for access in past:
            kept = access.addition if access.kind == "read" else None
            open_[access.addition.process] = kept
        counter = past[-1].left if past else self.accesses[0].counter
        yield Item("counter", *self.counter, *_CARD, "card", *_number(counter))
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
        lost = sum(len(access.lost) for access in past)
        yield label("name", (x - 58, y + 14), "counter")
        score = f"{many(written, 'addition')}, {lost} lost"
        yield label("score", (x + 56, y + 14), score)
        yield label("start", (0, _TOP + 6), "0 s")
        yield label("stop", (0, _TOP + _HIGH - 6), f"{_HIGH / self.scale:.2g} s")
        for number, process in enumerate(self.processes):
            x, wide = self._x(process), self.width - 10
            high = _TOP + _HIGH + 6 - _COLUMN
            name = cut(_name(process), wide)
            yield Item(f"column {number}", x, _COLUMN, wide, high, "box", name)
            x, y = self._hand(process)
            yield Item(f"hand {number}", x, y, *_CARD, "place")

    def _hand(self, process):
        return self._x(process) + (self.width - 10 - _CARD[0]) / 2, _COLUMN + 24

    def _card(self, process, addition, counter):
        """Show what a process has read; else its card lies on the counter."""
        number = self.processes.index(process)
        place, text, role = self.counter, counter, "card"
        if addition is not None:
            place, text, role = self._hand(process), addition.old, f"rank-{number}"
        return Item(f"card {number}", *place, *_CARD, role, *_number(text))

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
        lost = {addition for access in past for addition in access.lost}
        for addition in reads:
            stop = addition.stop if addition in writes else now
            write = writes.get(addition)
            yield self._bar(addition, write, stop=stop, lost=addition in lost)

    def _bar(self, addition, write, *, stop, lost):
        number = self.processes.index(addition.process)
        y = _TOP + (addition.start - self.start) * self.scale
        high = max(2, (stop - addition.start) * self.scale)
        text = self._words(addition, lost) if write and high >= 14 else ""
        role = f"rank-{number} again" if lost else f"rank-{number}"
        place = self._x(addition.process) + 5, y, self.width - 20, high
        tip = f"{_name(addition.process)} read {addition.old:g} at "
        tip += f"{addition.start - self.start:.3f} s"
        if write:
            tip += f", wrote {addition.new:g} at {addition.stop - self.start:.3f} s"
            if write.lost or write.held:
                tip += f", over {write.counter:g}"
            if lost:
                tip += ", lost"
        name = f"addition {number} {addition.start}"
        return Item(name, *place, role, text, tip)

    def _words(self, addition, lost):
        """Say what was read and written, and whether it is lost, as far as it fits."""
        text, wide = f"{addition.old:g} → {addition.new:g}", self.width - 20
        if lost:
            return fitting(f"{text}, lost", wide) or fitting("lost", wide)
        return fitting(text, wide)


def _number(value):
    """Text of a card, and in full what is read when somebody points at it."""
    text = fitting(f"{value:g}", _CARD[0])
    return text, "" if text else f"{value:.15g}"
