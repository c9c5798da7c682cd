"""One GPU that accumulates beside ranks that share: one gradient, other traffic."""

import math
from typing import NamedTuple

from course_lib.errors import UsageError
from course_lib.scenes.arguments import real_number, switches, whole_numbers
from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.scene import Scene, varied
from course_lib.text import many, short
from course_lib.text import size as bytes_text

_LEFT, _PITCH = 84, 48  # x of the first micro-batch, and on to the next
_CARD, _HIGH, _BAR = 46, 26, 8  # of a card, width of an all-reduce
_MOST = 8  # micro-batches that have room beside each other
_GRAD, _SENT = _LEFT + _MOST * _PITCH + 2, 562
_ONE, _FIRST, _ROW = 26, 84, 32  # y of one GPU, of rank 0, and from rank to rank
_WHEN = {True: "in the last backward (no_sync)", False: "in every backward"}


class Sharing(NamedTuple):
    """Gradients of micro-batches, the ranks that share them, when they all-reduce."""

    gradients: list
    size: float
    ranks: int
    no_sync: bool

    @property
    def turns(self) -> int:
        """Return micro-batches of a rank."""
        return len(self.gradients) // self.ranks

    def all_reduces(self, turn) -> int:
        """Return how many all-reduces there were when `turn` micro-batches are done."""
        return int(turn >= self.turns) if self.no_sync else min(turn, self.turns)

    def sent(self, turn) -> float:
        """Return bytes of a rank, as a ring sends them."""
        return self.all_reduces(turn) * 2 * (self.ranks - 1) / self.ranks * self.size

    def alone(self, turn) -> float:
        """Return what one GPU has in `.grad` after so many micro-batches."""
        return math.fsum(self.gradients[:turn]) / len(self.gradients)

    def own(self, rank, turn) -> float:
        """Return what a rank has added up itself after so many micro-batches."""
        return math.fsum(self.gradients[rank :: self.ranks][:turn]) / self.turns

    def shared(self, rank, turn) -> float:
        """Return what a rank has in `.grad` after the all-reduce of this turn."""
        done = turn if self.all_reduces(turn) else 0
        mean = math.fsum(self.own(r, done) for r in range(self.ranks)) / self.ranks
        return mean + self.own(rank, turn) - self.own(rank, done)

    def unshared(self, rank, turn) -> float:
        """Return what it has before the all-reduce of this turn."""
        added = self.own(rank, turn) - self.own(rank, turn - 1)
        return self.shared(rank, turn - 1) + added


def accumulation(gradients, *, size, ranks=2, no_sync=True) -> Scene:
    """Play a batch in micro-batches: on one GPU, and on ranks under DDP.

    `gradients` are those of one weight, a number for each micro-batch (8 at most, of
    equally many samples), `size` the bytes of the gradients of all weights. `ranks`
    divide the micro-batches, with `no_sync` only the last backward communicates: one
    value, or a list for a slider, its first shown first.

    Errors: `UsageError` for no or more than 8 gradients, for some that are no numbers,
    for ranks that do not divide them.
    """
    ranks = whole_numbers("ranks", ranks, most=_MOST)
    when = [_WHEN[quiet] for quiet in switches("no_sync", no_sync)]
    gradients = _checked(gradients, ranks)
    size = real_number("size", size)

    def moments(**values):
        quiet = values["all-reduce"] == _WHEN[True]
        return _moments(Sharing(gradients, size, values["ranks"], quiet))

    return varied(
        moments,
        {"ranks": ranks, "all-reduce": when},
        height=_FIRST + max(ranks, default=1) * _ROW,
        source="gradients: yours, of one weight; bytes computed: a ring sends "
        "2(n − 1)/n of all gradients",
        seconds=1.2,
    )


def _checked(gradients, ranks):
    gradients = list(map(_float, gradients))
    if not 0 < len(gradients) <= _MOST:
        raise UsageError(
            f"cannot show {len(gradients)} micro-batches: expected 1 to {_MOST}, each "
            "with its gradient, a number"
        )
    for count in ranks:
        if len(gradients) % count:
            each = many(len(gradients), "micro-batch")
            raise UsageError(f"{count} ranks cannot share {each} evenly")
    return gradients


def _float(gradient):
    """Read a number, as of a tensor with one element."""
    try:
        number = float(gradient)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"a gradient is {short(gradient)}: expected a number")
    return number


# --- what is to be seen


def _moments(sharing):
    count, ranks = len(sharing.gradients), many(sharing.ranks, "rank")
    batches = many(count, "micro-batch")
    start = f"{batches}: one GPU takes all of them, {ranks} share them."
    yield Moment(start, _items(sharing, 0))
    for turn in range(1, count + 1):
        before = sharing.all_reduces(turn - 1)
        sends = sharing.all_reduces(turn) > before and sharing.ranks > 1
        yield Moment(_adding(sharing, turn), _items(sharing, turn, sends=sends))
        if sends:
            yield Moment(_averaged(sharing, turn), _items(sharing, turn))
    yield Moment(_last(sharing), _items(sharing, count))


def _adding(sharing, turn):
    alone = f"One GPU adds 1/{len(sharing.gradients)} of micro-batch {turn}"
    if turn > sharing.turns:
        return f"{alone}; the ranks are done."
    quiet = ", and sends nothing" if sharing.no_sync and turn < sharing.turns else ""
    return f"{alone}; each rank 1/{sharing.turns} of its own{quiet}."


def _averaged(sharing, turn):
    each = bytes_text(sharing.sent(turn))
    return f"All-reduce: all ranks hold the mean, and each has sent {each}."


def _last(sharing):
    count = len(sharing.gradients)
    sent = f"one GPU sent nothing, each rank {bytes_text(sharing.sent(count))}"
    return f"The same gradient, {_number(sharing.alone(count), 5)}: {sent}."


def _items(sharing, turn, *, sends=False):
    """After `turn` micro-batches; `sends` says that their all-reduce is to come."""
    heads = {_LEFT: "micro-batches", _GRAD: ".grad", _SENT: "sent"}
    for x, text in heads.items():
        yield label(f"head {x}", (x, 10), text, role="label soft")
    yield label("ddp", (0, _FIRST - 16), "DDP", role="label soft")
    bars = "a bar across all ranks is an all-reduce"
    yield label("bars", (_LEFT, _FIRST - 16), bars, role="label soft")
    value = sharing.alone(turn), 0.0
    yield from _row(
        "one GPU", _ONE, gradients=sharing.gradients, turn=turn, value=value
    )
    for rank in range(sharing.ranks):
        done = min(turn, sharing.turns)
        if sends:
            value = sharing.unshared(rank, done), sharing.sent(done - 1)
        else:
            value = sharing.shared(rank, done), sharing.sent(done)
        mine = sharing.gradients[rank :: sharing.ranks]
        y = _FIRST + rank * _ROW
        yield from _row(f"rank {rank}", y, gradients=mine, turn=done, value=value)
    yield from _all_reduces(sharing, turn - sends)


def _row(name, y, *, gradients, turn, value):
    yield label(name, (0, y + _HIGH / 2), name)
    for number, gradient in enumerate(gradients):
        text = _number(gradient)
        place = _x(number, name), y, _CARD, _HIGH
        role = "gradients" if number < turn else "card"
        tip = f"{name}, micro-batch {number + 1}: {gradient:+.4g}"
        yield Item(f"{name} {number}", *place, role, text if len(text) < 7 else "", tip)
    grad, sent = value
    tip = f".grad of {name}: {grad:+.4g}"
    yield Item(f"{name} grad", _GRAD, y, 84, _HIGH, "card", _number(grad, 5), tip)
    yield label(f"{name} sent", (_SENT, y + _HIGH / 2), bytes_text(sent))


def _all_reduces(sharing, turn):
    """Yield a bar across all ranks behind each turn that all-reduced."""
    if sharing.ranks == 1:
        return
    high = (sharing.ranks - 1) * _ROW + _HIGH + 4
    for done in range(1, min(turn, sharing.turns) + 1):
        if sharing.all_reduces(done) > sharing.all_reduces(done - 1):
            sent = sharing.sent(done) - sharing.sent(done - 1)
            tip = f"all-reduce: each rank sends {bytes_text(sent)}"
            place = _x(done, "rank") - _BAR - 2, _FIRST - 2, _BAR, high
            yield Item(f"all-reduce {done}", *place, "communicate", "", tip)


def _x(number, name):
    """Where a micro-batch stands; between those of ranks is room for an all-reduce."""
    pitch = _PITCH if name == "one GPU" else _PITCH + _BAR + 2
    return _LEFT + number * pitch


def _number(value, decimals=3):
    """`+0.031`, `−0.010`; what rounds to zero is no negative."""
    text = f"{round(value, decimals) + 0.0:+.{decimals}f}"
    return text.replace("-", "−")
