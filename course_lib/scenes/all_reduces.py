"""All-reduces side by side: who is done first, and what each rank has sent."""

import textwrap
from bisect import bisect
from fractions import Fraction
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from course_lib.accelerators.collectives import ALL_REDUCES, Schedule
from course_lib.scenes.arrows import room
from course_lib.scenes.collective import checked_ranks, pairs, tensors_text
from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.scene import WIDTH, Scene, varied
from course_lib.scenes.sent_bars import HIGH, LARGEST, LEFT, WIDEST, Panel, Sent, Tally
from course_lib.text import listed, many, ranks_named

_TOP = 74


def all_reduces(*, ranks=(8, 4)) -> Scene:
    """Play algorithms of an all-reduce side by side, and count what each rank sends.

    `ranks` is a number, or a list for a slider whose first value is shown first. With
    small messages all rounds take the same time, with large ones a round lasts as long
    as its largest message, and a double binary tree has four blocks.

    Errors: `UsageError` for less than 1 or more than 8 ranks.
    """
    options: dict[str, list] = {
        "ranks": checked_ranks(ranks),
        "messages": ["small", "large"],
    }
    plans = {
        (count, kind): [_plan(name, count, kind) for name in ALL_REDUCES]
        for count in options["ranks"]
        for kind in options["messages"]
    }
    every = [plan for row in plans.values() for plan in row]
    most = ceil(max((plan.busiest for plan in every), default=0)) or 1
    scale = min(LARGEST, int(HIGH / most))
    panel = Panel(LEFT, 0, _TOP + most * scale, scale, tensors_text)

    def moments(ranks, messages):
        racers = [Racer(plan, messages == "large") for plan in plans[ranks, messages]]
        return list(_race(racers, panel))

    return varied(
        moments,
        options,
        height=panel.base + 22 + room(pairs(m) for plan in every for m in plan.rounds),
        source="computed from the algorithms. Small messages: each round takes the "
        "same time. Large ones: a round lasts as long as its largest message",
        seconds=1.2,
    )


def _plan(name, ranks, kind):
    # in one piece, a large message would leave most ranks of the trees idle
    blocks = {"blocks": 4} if (name, kind) == ("double binary tree", "large") else {}
    return ALL_REDUCES[name](ranks, **blocks)


class Racer(NamedTuple):
    """A schedule on a clock; with `large` messages a round lasts as its largest one."""

    plan: Schedule
    large: bool

    @property
    def ends(self) -> list:
        """Return when each round ends: a unit is a round, or the time of a tensor."""
        chunks = (max(len(move.chunks) for move in row) for row in self.plan.rounds)
        times = (Fraction(count, self.plan.chunks) for count in chunks)
        return list(accumulate(times if self.large else (1 for _ in self.plan.rounds)))

    def done(self, time) -> int:
        """Return how many rounds have ended by then."""
        return bisect(self.ends, time)

    def step(self, time) -> Tally:
        """Return what was sent by then, and in the round that has just ended."""
        done = self.done(time)
        last = self.plan.rounds[done - 1] if done > self.done(time - 1) else ()
        whole = self.plan.chunks
        moves = [Sent(*move[:2], Fraction(len(move.chunks), whole)) for move in last]
        return Tally(self.plan.sent(done), moves)


def _race(racers, panel):
    last = max((racer.ends[-1] for racer in racers if racer.ends), default=0)
    times = range(ceil(last) + 2 if last else 1)
    steps = [[racer.step(time) for time in times] for racer in racers]
    wide = (WIDTH - LEFT) // len(racers)
    pitch = min(WIDEST, (wide - 8) // racers[0].plan.ranks)
    for time in times:
        items = list(_lines(panel))
        for number, (racer, row) in enumerate(zip(racers, steps)):
            name, left = f"{number} ", LEFT + wide * number
            place = panel._replace(left=left, pitch=pitch, name=name)
            items += _head(place, racer, time)
            items += place.items(row[time], panel.base + 24)
        yield Moment(_says(racers, time, last), items)


def _lines(panel):
    """Yield a line for each second tensor."""
    for number in range(0, (panel.base - _TOP) // panel.scale + 1, 2):
        y = panel.base - number * panel.scale
        yield Item(f"line {number}", LEFT, y, WIDTH - LEFT, 0, "line faded")
        yield label(f"amount {number}", (0, y), str(number), role="label soft")


def _head(panel, racer, time):
    """Its name, what its busiest rank has sent, and how many rounds have ended."""
    plan, done = racer.plan, racer.done(time)
    rounds = many(len(plan.rounds), "round")
    count = f"done: {rounds}" if done == len(plan.rounds) else f"{done} of {rounds}"
    lines = [*textwrap.wrap(plan.algorithm, 17), ""][:2]
    for number, text in enumerate([*lines, tensors_text(max(plan.sent(done))), count]):
        at = panel.left, 8 + 16 * number
        role = "label strong" if number == 2 else "label"
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
    when = f"Round {time}"
    if racers[0].large:
        when = f"After the time of {tensors_text(time)}"
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
        when = f"after the time of {tensors_text(time)}"
        return f"First: {first}, {when}. Last: {last}, {end}."
    fewest, rounds = _picked(racers, lambda racer: len(racer.plan.rounds))
    least, bill = _picked(racers, lambda racer: racer.plan.busiest)
    bill = f"{least}, {tensors_text(bill)}"
    return f"Fewest rounds: {fewest}, {rounds}. Smallest bill: {bill}."


def _picked(racers, key, pick=min):
    """Return the names of those with the smallest value, and that value."""
    value = pick(map(key, racers))
    return listed(r.plan.algorithm for r in racers if key(r) == value), value
