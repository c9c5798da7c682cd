"""What moves from device to device, one kind of move after the other."""

import math
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from course_lib.errors import UsageError
from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.scene import WIDTH, Scene
from course_lib.text import many, rank_order, size
from course_lib.tracing.events import Trace

_HIGH, _CHIP, _GAP = 54, 20, 116  # of a device, of bytes, below a hub
_MOST_DEVICES, _MOST_ROUNDS = 8, 24
_LINES = 6


class Round(NamedTuple):
    """Moves of one name that are shown at once: bytes by (source, target)."""

    name: str
    bytes: dict

    @property
    def text(self) -> str:
        """Return what moves, in a sentence."""
        what = f"{self.name}: {size(sum(self.bytes.values()))}"
        sources, targets = (set(ends) for ends in zip(*self.bytes))
        if len(sources) == len(targets) == 1:
            return f"{what} from {_only(sources)} to {_only(targets)}."
        if len(sources) == 1:
            return f"{what} leave {_only(sources)}."
        if len(targets) == 1:
            return f"{what} come to {_only(targets)}."
        if ends := _chain(self.bytes):
            each = size(next(iter(self.bytes.values())))
            return f"{self.name}: each hands on {each}, from {ends[0]} to {ends[1]}."
        return f"{what} between {many(len(sources | targets), 'device')}."


def transfers(trace) -> Scene:
    """Play the transfers of a trace: those of one name and direction at once.

    So are those of one name whose times overlap, as in a collective of NCCL.

    `trace` is what `cl.trace()` recorded; each device counts the bytes that it sent and
    got. Where one device takes part in all transfers, it stands above the others.

    Errors: `UsageError` where nothing was copied between devices; for more than 8
    devices; for more than 24 moves, as of many steps.
    """
    if trace is not None and not isinstance(trace, Trace):
        found = type(trace).__name__
        raise UsageError(f"transfers() needs what `cl.trace()` recorded: found {found}")
    copies = [] if trace is None else trace.transfers
    copies = [copy for copy in copies if copy.source != copy.target]
    if not copies:
        raise UsageError(
            "no transfers to show: nothing was copied between devices while the trace "
            "was recorded. Move a tensor, as in `x.to(devs[1])`, inside the block."
        )
    rounds = _rounds(copies)
    if len(rounds) > _MOST_ROUNDS:
        raise UsageError(
            f"{len(rounds)} moves are too many to show one by one: record a single step"
        )
    ends = {device for copy in copies for device in (copy.source, copy.target)}
    places = _places(sorted(ends, key=rank_order), copies)
    height = max(y for _, y in places.values()) + _HIGH / 2 + 6
    return Scene(
        list(moments(rounds, places)),
        height=height,
        source="bytes counted in your trace",
        seconds=1.2,
    )


def _rounds(copies):
    """Neighbours of one name that go up, or down, the order of devices, or overlap."""

    def upward(copy):
        return rank_order(copy.source) < rank_order(copy.target)

    rounds, last = [], copies[0]
    for copy in copies:
        way = copy.source, copy.target
        goes_on = rounds and (
            upward(copy) == upward(last)
            or copy.start < last.stop
            or way in rounds[-1].bytes
        )
        if not goes_on or copy.name != last.name:
            rounds.append(Round(copy.name, Counter()))
        rounds[-1].bytes[way] += copy.bytes
        last = copy
    return rounds


def _chain(moved):
    """Return both ends, if each device hands on as much as it gets to the next one."""
    ways = list(moved)
    follows = all(one[1] == other[0] for one, other in pairwise(ways))
    once = len({device for way in ways for device in way}) == len(ways) + 1
    if follows and once and len(set(moved.values())) == 1:
        return ways[0][0], ways[-1][1]
    return None


# --- where devices stand


def _places(devices, copies):
    """Return the centre of each: below the one that joins in all, or on a circle."""
    if len(devices) > _MOST_DEVICES:
        there, room = many(len(devices), "device"), _MOST_DEVICES
        raise UsageError(f"cannot show {there}: the figure has room for {room}")
    hubs = [d for d in devices if all(d in (c.source, c.target) for c in copies)]
    return star(hubs[0], devices) if hubs else circle(devices)


def star(hub, devices) -> dict:
    """Return `{device: (x, y)}`: the hub on top, the others in a row below."""
    others = [device for device in devices if device != hub]
    wide, top = WIDTH / len(others), _HIGH / 2 + 2
    row = {d: (wide * (i + 0.5), top + _HIGH + _GAP) for i, d in enumerate(others)}
    return {hub: (WIDTH / 2, top)} | row


def circle(devices) -> dict:
    """Return `{device: (x, y)}`, clockwise from the top."""
    across, down = (WIDTH - 120) / 2, 120
    angles = {d: 2 * math.pi * i / len(devices) for i, d in enumerate(devices)}
    middle = WIDTH / 2, down + _HIGH / 2 + 2
    return {
        device: (middle[0] + across * math.sin(a), middle[1] - down * math.cos(a))
        for device, a in angles.items()
    }


# --- what is to be seen


def moments(rounds, places):
    """Yield a moment for each round, one before them, and the sums at the end.

    `places` are the centres of all devices, `{device: (x, y)}`.
    """
    sent, got = Counter(), Counter()
    start = f"{many(len(places), 'device')}, and nothing has moved."
    yield Moment(start, (*_devices(places, sent, got), *_waiting(rounds, 0, places)))
    for number, round_ in enumerate(rounds):
        for (source, target), count in round_.bytes.items():
            sent[source] += count
            got[target] += count
        items = [*_devices(places, sent, got), *_moving(rounds, number, places)]
        items += list(_list(rounds[: number + 1], places))
        yield Moment(round_.text, (*items, *_waiting(rounds, number + 1, places)))
    items = [*_devices(places, sent, got), *_list(rounds, places)]
    ways = dict.fromkeys(ends for round_ in rounds for ends in round_.bytes)
    yield Moment(_last(sent, got, places), (*items, *_ways(ways, places)))


def _last(sent, got, places):
    most = max(places, key=lambda device: sent[device] + got[device])
    same = len({(sent[device], got[device]) for device in places}) == 1
    who = "each" if same else most
    both = f"{who} sends {size(sent[most])} and gets {size(got[most])}"
    return f"In all {size(sent.total())}: {both}."


def _devices(places, sent, got):
    wide = _wide(places)
    for device, (x, y) in places.items():
        left, top = x - wide / 2, y - _HIGH / 2
        texts = f"sent {size(sent[device])}", f"got {size(got[device])}"
        where, tip = (left, top, wide, _HIGH), f"{device}: {', '.join(texts)}"
        yield Item(f"device {device}", *where, "box", device, tip)
        for line, text in enumerate(texts):
            at = left + 6, top + 28 + 16 * line
            yield label(f"{device} {line}", at, text, role="label soft")


def _moving(rounds, number, places):
    """Yield the bytes on their way; those of the round before go into their devices."""
    name, moved = rounds[number]
    for (source, target), count in moved.items():
        yield _arrow(source, target, places)
        at = _between(source, target, places)
        tip = f"{name} from {source} to {target}: {size(count)}"
        yield _chip(f"bytes {number} {source} {target}", at, count, tip=tip)
    for (source, target), count in rounds[number - 1].bytes.items() if number else ():
        chip = _chip(f"bytes {number - 1} {source} {target}", places[target], count)
        yield chip._replace(role="communicate gone")


def _waiting(rounds, number, places):
    """Yield the bytes of a round, unseen, where they will come from."""
    if number < len(rounds):
        for (source, target), count in rounds[number].bytes.items():
            chip = _chip(f"bytes {number} {source} {target}", places[source], count)
            yield chip._replace(role="communicate gone")


def _ways(whole, places):
    """Yield an arrow for each direction in which bytes moved; there and back part."""
    for source, target in whole:
        back = (target, source) in whole
        ahead = rank_order(source) < rank_order(target)
        side = 6 * back * (1 if ahead else -1)
        shifted = {device: (x + side, y) for device, (x, y) in places.items()}
        yield _arrow(source, target, shifted)


def _list(rounds, places):
    """Yield what has moved, line by line, where the upper left corner is free."""
    if min((y for x, y in places.values() if x < 240), default=999) > 140:
        for line, (name, moved) in enumerate(rounds[-_LINES:]):
            text = f"{name}: {size(sum(moved.values()))}"
            yield label(f"line {line}", (0, 12 + 17 * line), text)


def _chip(name, at, count, *, tip=""):
    text = size(count)
    wide = 6.4 * len(text) + 8
    where = at[0] - wide / 2, at[1] - _CHIP / 2, wide, _CHIP
    return Item(name, *where, "communicate", text, tip)


def _arrow(source, target, places):
    """From the edge of one device to that of the other."""
    x, y = _edge(places[source], places[target], places)
    right, bottom = _edge(places[target], places[source], places)
    return Item(f"arrow {source}, {target}", x, y, right - x, bottom - y, "arrow")


def _edge(here, there, places):
    """Where the way from one centre to another leaves the device, and a little on."""
    across, down = there[0] - here[0], there[1] - here[1]
    ways = ((_wide(places) / 2 + 3, across), (_HIGH / 2 + 3, down))
    share = min(room / abs(way) for room, way in ways if way)
    return here[0] + share * across, here[1] + share * down


def _between(source, target, places):
    """On the way between two devices, nearer to the lower one: a hub is above."""
    one, other = places[source], places[target]
    ends = _edge(one, other, places), _edge(other, one, places)
    upper, lower = sorted(ends, key=lambda place: place[1])
    share = 0.5 if abs(upper[1] - lower[1]) < _CHIP else 0.66
    return tuple(a + share * (b - a) for a, b in zip(upper, lower))


def _wide(places):
    return min(118, WIDTH / max(1, len(places) - 1) - 8)


def _only(things):
    [thing] = things
    return thing
