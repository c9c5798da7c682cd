"""What ranks have sent, as bars that grow while messages move below them."""

import textwrap
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from course_lib.accelerators.collectives import ALL_REDUCES, Schedule
from course_lib.errors import UsageError
from course_lib.scenes.chunks import checked_ranks, pairs, tensors, way
from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.lanes import arrows, room
from course_lib.scenes.scene import WIDTH, Scene, several, switched
from course_lib.text import listed, many, ranks_named, short, size

_LEFT, _TOP, _HIGH, _WIDEST, _LARGEST = 22, 74, 112, 56, 16
_NAMES = [*ALL_REDUCES][:5]
_SIZES = "small", "large"
_MOST = 16  # rounds of a run that are shown one by one


class Sent(NamedTuple):
    """What a rank sends to another in a round, in tensors or bytes."""

    source: int
    target: int
    amount: Fraction | int


class Tally(NamedTuple):
    """What each rank has sent by now, and the last round's messages."""

    bill: list
    moves: Sequence[Sent]


class Panel(NamedTuple):
    """Bars of ranks beside each other that stand on `base`; messages move below.

    `scale` is the height of a unit sent, `words` says an amount.
    """

    left: float
    pitch: float
    base: float
    scale: float
    words: Callable
    name: str = ""

    def middle(self, rank) -> float:
        """The middle of a rank."""
        return self.left + self.pitch * rank + self.pitch // 2

    @property
    def wide(self) -> int:
        """The width of a bar."""
        return min(self.pitch - 2, _WIDEST)

    def items(self, step, below):
        """The bar of each rank, and arrows from `below` on for the last messages."""
        for rank, amount in enumerate(step.bill):
            name, high = f"{self.name} {rank}", float(amount * self.scale)
            at = self.middle(rank) - self.wide / 2, self.base - high, self.wide, high
            tip = f"rank {rank}: {self.words(amount)}"
            yield Item(f"bar {name}", *at, f"rank-{rank}", "", tip)
        middles = [*map(self.middle, range(len(step.bill)))]
        yield from arrows(pairs(step.moves), middles, below, name=self.name)

    def blocks(self, steps, number):
        """The last messages, as high as what they add to a bar, and those to come."""
        ends = (number, "target", ""), (number + 1, "source", " gone")
        for turn, end, role in ends:
            for move in steps[turn].moves if turn < len(steps) else ():
                high = min(_LARGEST, max(2, float(move.amount * self.scale)))
                x = self.middle(getattr(move, end)) - self.wide / 2
                at = x, self.base + 22 + _LARGEST - high, self.wide, high
                # names take turns: nothing glides back from a target to its source
                name = f"block {turn % 3} {move.source} {move.target}"
                tip = f"rank {move.source} to rank {move.target}: "
                tip += self.words(move.amount)
                yield Item(name, *at, f"rank-{move.source}{role}", "", tip)


# --- all-reduces side by side


def all_reduces(names=tuple(_NAMES), *, ranks=(8, 4), messages=_SIZES) -> Scene:
    """Play algorithms of an all-reduce side by side, and count what each rank sends.

    `names` are up to six of those of `collective`; `ranks` a number or a list for a
    slider. With `messages` "small" all rounds take the same time, with "large" a round
    lasts as long as its largest message, and a double binary tree has four blocks. The
    first value is shown first.

    Errors: `UsageError` for another name, for less than 1 or more than 8 ranks.
    """
    names = several(names)
    for name in names or [None]:
        if name not in [*ALL_REDUCES]:
            known = ", ".join(map(repr, ALL_REDUCES))
            raise UsageError(f"no all-reduce {short(name)}: expected some of {known}")
    options = {"ranks": several(ranks), "messages": several(messages)}
    for kind in options["messages"]:
        if kind not in _SIZES:
            raise UsageError(f"messages are 'small' or 'large', not {short(kind)}")
    plans = {
        (count, kind): [_plan(name, checked_ranks(count), kind) for name in names]
        for count in options["ranks"]
        for kind in options["messages"]
    }
    every = [plan for row in plans.values() for plan in row]
    most = ceil(max((plan.busiest for plan in every), default=0)) or 1
    scale = min(_LARGEST, int(_HIGH / most))
    panel = Panel(_LEFT, 0, _TOP + most * scale, scale, tensors)

    def moments(ranks, messages):
        racers = [Racer(plan, messages == "large") for plan in plans[ranks, messages]]
        return [*_race(racers, panel)]

    return switched(
        moments,
        options,
        height=panel.base + 22 + room(pairs(m) for plan in every for m in plan.rounds),
        source="computed from the algorithms. Small messages: each round takes the "
        "same time. Large ones: a round lasts as long as its largest message",
        seconds=1.2,
    )


def _plan(name, ranks, kind):
    # in one piece, a large message would leave most ranks of the trees idle
    blocks = {"blocks": 4} if (name, kind) == (_NAMES[-1], "large") else {}
    return ALL_REDUCES[name](ranks, **blocks)


class Racer(NamedTuple):
    """A schedule on a clock; with `large` messages a round lasts as its largest one."""

    plan: Schedule
    large: bool

    @property
    def ends(self) -> list:
        """When each round ends: a unit is a round, or the time of a tensor."""
        chunks = (max(len(move.chunks) for move in row) for row in self.plan.rounds)
        times = (Fraction(count, self.plan.chunks) for count in chunks)
        return [*accumulate(times if self.large else (1 for _ in self.plan.rounds))]

    def done(self, time) -> int:
        """How many rounds have ended by then."""
        return bisect(self.ends, time)

    def step(self, time) -> Tally:
        """What was sent by then, and in the round that ended last, if it has just."""
        done = self.done(time)
        last = self.plan.rounds[done - 1] if done > self.done(time - 1) else ()
        moves = [
            Sent(*move[:2], Fraction(len(move.chunks), self.plan.chunks))
            for move in last
        ]
        return Tally(self.plan.sent(done), moves)


def _race(racers, panel):
    last = max((racer.ends[-1] for racer in racers if racer.ends), default=0)
    times = range(ceil(last) + 2 if last else 1)
    steps = [[racer.step(time) for time in times] for racer in racers]
    wide = (WIDTH - _LEFT) // len(racers)
    pitch = min(_WIDEST, (wide - 8) // racers[0].plan.ranks)
    for time in times:
        items = [*_lines(panel)]
        for number, (racer, row) in enumerate(zip(racers, steps)):
            name, left = f"{number} ", _LEFT + wide * number
            place = panel._replace(left=left, pitch=pitch, name=name)
            items += _head(place, racer, time)
            items += place.items(row[time], panel.base + 24)
        yield Moment(_says(racers, time, last), items)


def _lines(panel):
    """A line for each second tensor."""
    for number in range(0, (panel.base - _TOP) // panel.scale + 1, 2):
        y = panel.base - number * panel.scale
        yield Item(f"line {number}", _LEFT, y, WIDTH - _LEFT, 0, "line faded")
        yield label(f"amount {number}", (0, y), str(number), role="label soft")


def _head(panel, racer, time):
    """Its name, what its busiest rank has sent, and how many rounds have ended."""
    plan, done = racer.plan, racer.done(time)
    rounds = many(len(plan.rounds), "round")
    count = f"done: {rounds}" if done == len(plan.rounds) else f"{done} of {rounds}"
    lines = [*textwrap.wrap(plan.algorithm, 17), ""][:2]
    for number, text in enumerate([*lines, tensors(max(plan.sent(done))), count]):
        at, role = (
            (panel.left, 8 + 16 * number),
            "label strong" if number == 2 else "label",
        )
        yield label(f"head {panel.name}{number}", at, text, role=role)
    foot = panel.left, panel.base + 10
    text = ranks_named(range(plan.ranks))
    yield label(f"foot {panel.name}", foot, text, role="label soft")


def _says(racers, time, last):
    count = racers[0].plan.ranks
    if not last:
        return f"{many(count, 'rank')}: nothing is sent."
    if not time:
        return f"{many(count, 'rank')}: bars for the tensors that each of them sends."
    if time > ceil(last):
        return _result(racers)
    when = f"After the time of {tensors(time)}" if racers[0].large else f"Round {time}"
    ready = [r.plan.algorithm for r in racers if time - 1 < r.ends[-1] <= time]
    if ready:
        return f"{when}: {listed(ready)} {'is' if len(ready) == 1 else 'are'} done."
    bills = [max(racer.plan.sent(racer.done(time))) for racer in racers]
    least, most = (round(float(pick(bills)), 3) for pick in (min, max))
    return f"{when}: the busiest ranks have sent {least:g} to {most:g} tensors."


def _result(racers):
    if racers[0].large:
        first, time = _picked(racers, lambda racer: racer.ends[-1])
        last, end = _picked(racers, lambda racer: racer.ends[-1], max)
        return (
            f"First: {first}, after the time of {tensors(time)}. Last: {last}, {end}."
        )
    fewest, rounds = _picked(racers, lambda racer: len(racer.plan.rounds))
    least, bill = _picked(racers, lambda racer: racer.plan.busiest)
    bill = f"{least}, {tensors(bill)}"
    return f"Fewest rounds: {fewest}, {rounds}. Smallest bill: {bill}."


def _picked(racers, key, pick=min):
    """The names of those with the smallest value, and that value."""
    value = pick(map(key, racers))
    return listed(r.plan.algorithm for r in racers if key(r) == value), value


# --- a run


def messages(meter, *, tensor: float | None = None) -> Scene:
    """Play the messages that the ranks of a launch really sent, round by round.

    `meter` has the `world_size` and the `messages`, each with source, target, bytes and
    round. With `tensor`, the bytes of one, bills are said in tensors, too. After 16
    rounds the rest is one moment.

    Errors: `UsageError` for what is no meter or no size, and above 8 ranks.
    """
    if not hasattr(meter, "messages"):
        raise UsageError(
            "messages() needs the meter of a launch, such as `results.meter`: "
            f"found {short(meter)}"
        )
    if tensor is not None and not (isinstance(tensor, int | float) and tensor > 0):
        raise UsageError(f"tensor is {short(tensor)}: expected its bytes, above 0")
    ranks = checked_ranks(meter.world_size)
    titles, steps = zip(*_played(meter, ranks, tensor))
    most = max(steps[-1].bill) or 1
    panel = Panel(_LEFT, (WIDTH - _LEFT) // ranks, _HIGH + 36, _HIGH / most, size)
    below = panel.base + _LARGEST + 30
    moments = [
        Moment(
            title,
            [
                *panel.items(step, below),
                *panel.blocks(steps, number),
                *_amounts(panel, step, tensor),
            ],
        )
        for number, (title, step) in enumerate(zip(titles, steps))
    ]
    return Scene(
        moments,
        height=below + room(pairs(step.moves) for step in steps),
        source=f"measured: the messages of {many(ranks, 'rank')}",
        seconds=1.2,
    )


def _played(meter, ranks, tensor):
    """A title and what was sent: before the first round, after each, in the end."""
    rounds, every = defaultdict(Counter), Counter()
    for message in meter.messages:
        rounds[message.round][message.source, message.target] += message.bytes
        every[message.source] += message.bytes
    unlisted = getattr(meter, "more", ())
    every += Counter({rank: count for rank, (_, count) in enumerate(unlisted)})
    bill = Counter()
    yield f"{many(ranks, 'rank')}, and nothing is sent yet.", _step(bill, ranks)
    for number in sorted(rounds)[:_MOST]:
        moves = [Sent(*pair, count) for pair, count in rounds[number].items()]
        for move in moves:
            bill[move.source] += move.amount
        yield f"Round {number}: {_what(moves, ranks)}.", _step(bill, ranks, moves)
    step = _step(every, ranks)
    rest = "" if bill == every else "The rest is not shown one by one. "
    when = "all" if any(map(any, unlisted)) else many(len(rounds), "round")
    text = f"{rest}In {when} {_most(step.bill, tensor)}"
    yield text if any(step.bill) else "No rank sent a message.", step


def _step(bill, ranks, moves=()):
    return Tally([bill[rank] for rank in range(ranks)], moves)


def _what(moves, ranks):
    amounts = {move.amount for move in moves}
    if len(moves) == 1:
        return f"rank {moves[0].source} sends {size(*amounts)} {way(moves, ranks)}"
    if len(moves) == ranks and len(amounts) == 1:
        return f"each rank sends {size(*amounts)} {way(moves, ranks)}"
    total = size(sum(move.amount for move in moves))
    return f"{many(len(moves), 'message')}, {total} in all"


def _most(bill, tensor):
    most = max(bill)
    who = ranks_named([rank for rank, sent in enumerate(bill) if sent == most])
    text = f"{who} sent most" if len({*bill}) > 1 else "each rank sent"
    share = f", {tensors(most / tensor)}" if tensor else ""
    return f"{text}: {size(most)}{share}."


def _amounts(panel, step, tensor):
    """The ground of the bars, the bill of each rank above its own."""
    yield Item("ground", 0, panel.base, WIDTH, 0, "line faded")
    for rank, amount in enumerate(step.bill):
        texts = [size(amount), *([tensors(amount / tensor)] if tensor else [])]
        y = panel.base - amount * panel.scale + 7
        for number, text in enumerate(texts[::-1], 1):
            at = panel.middle(rank), y - 15 * number
            yield label(f"bill {rank} {number}", at, text, role="label middle")
        foot = panel.middle(rank), panel.base + 10
        yield label(f"foot {rank}", foot, f"rank {rank}", role="label middle soft")
