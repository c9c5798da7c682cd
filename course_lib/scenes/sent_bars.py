"""What ranks have sent, as bars that grow while messages move below them."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from course_lib.scenes.arrows import arrows
from course_lib.scenes.collective import pairs
from course_lib.scenes.items import Item

LEFT, HIGH = 22, 112  # of 640, the width of a figure
WIDEST, LARGEST = 56, 16  # of a bar, of a message


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
        """Return the middle of a rank."""
        return self.left + self.pitch * rank + self.pitch // 2

    @property
    def wide(self) -> float:
        """Return the width of a bar."""
        return min(self.pitch - 2, WIDEST)

    def items(self, step, below):
        """Yield the bar of each rank, and the last messages as arrows from `below`."""
        for rank, amount in enumerate(step.bill):
            name, high = f"{self.name} {rank}", float(amount * self.scale)
            at = self.middle(rank) - self.wide / 2, self.base - high, self.wide, high
            tip = f"rank {rank}: {self.words(amount)}"
            yield Item(f"bar {name}", *at, f"rank-{rank}", "", tip)
        middles = list(map(self.middle, range(len(step.bill))))
        yield from arrows(pairs(step.moves), middles, below, name=self.name)

    def blocks(self, steps, number):
        """Yield messages, as high as what they add to a bar: the last, and the next."""
        ends = (number, "target", ""), (number + 1, "source", " gone")
        for turn, end, role in ends:
            for move in steps[turn].moves if turn < len(steps) else ():
                high = min(LARGEST, max(2, float(move.amount * self.scale)))
                x = self.middle(getattr(move, end)) - self.wide / 2
                at = x, self.base + 22 + LARGEST - high, self.wide, high
                # names take turns: nothing glides back from a target to its source
                name = f"block {turn % 3} {move.source} {move.target}"
                tip = f"rank {move.source} to rank {move.target}: "
                tip += self.words(move.amount)
                yield Item(name, *at, f"rank-{move.source}{role}", "", tip)
