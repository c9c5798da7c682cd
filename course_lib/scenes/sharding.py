"""Shares of a model on ranks: what a rank holds and sends in a step, stage by stage."""

import itertools

from course_lib.scenes.arguments import whole_numbers
from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.scene import WIDTH, Scene, varied
from course_lib.scenes.sharded_step import (
    BYTES,
    KINDS,
    STAGES,
    ShardedModel,
    step_moments,
)
from course_lib.text import size

_RANKS = [2, 4]
_LEFT, _GROUP, _APART = 60, 186, 11  # of columns of a kind, and between two kinds
_TOP, _HIGH, _GAP = 40, 136, 4  # of all rows, and between two
_HELD, _SENT, _BAR = 220, 262, 16  # y of the bars, and their height
_DDP = 420  # x of what DDP holds and sends
_LEGEND = (
    "pale: gradients of a rank's own samples, or old weights; grey: not on the rank"
)
_SOURCE = (
    "computed: equal blocks and shares, Adam, collectives on a ring; without"
    " activations, work space, prefetching and buckets, so that DDP and ZeRO-1 send"
    " after backward"
)


def sharding(*, parameters, blocks=4) -> Scene:
    """Play a training step under DDP and ZeRO: what each rank holds, and what it sends.

    A model of `parameters` numbers in equal blocks; sliders choose the stage, 2 or 4
    ranks, and how many bytes a number takes. A row is a rank. A column is a share of a
    block, in the colour of the rank that owns it; where it is grey, it is not there.
    Pale are gradients of a rank's own samples, and weights from before the step. Bars
    compare a rank's bytes with DDP's.

    Errors: `UsageError` for what is not a whole number from 1, or for more blocks than
    the figure has room for.
    """
    [count] = whole_numbers("parameters", [parameters], most=10**13)
    [parts] = whole_numbers("blocks", [blocks], most=4)

    def moments(stage, ranks, numbers):
        model = ShardedModel(STAGES.index(stage), ranks, parts, count, BYTES[numbers])
        return list(_moments(model))

    return varied(
        moments,
        {"stage": list(STAGES), "ranks": _RANKS, "numbers": list(BYTES)},
        at={"ranks": 4, "numbers": list(BYTES)[1]},
        height=_SENT + _BAR + 32,
        source=_SOURCE,
        seconds=1.2,
    )


def _moments(model):
    most = 0
    for moment in step_moments(model):
        held = model.held(moment)
        now = sum(held.values())
        most = max(most, now)
        items = [
            *_places(model),
            *_cells(model, moment),
            *_gaps(model),
            *_around(model, moment),
            *_counts(model, held),
            *_references(model),
            *_bars(model, now, most, moment.sent),
        ]
        yield Moment(moment.title, items)


# --- where things are


def _column(model, kind, block, share=0):
    """Return x and width of a share of a block."""
    pitch = _GROUP // model.blocks
    wide = (pitch - 3) // 4
    x = _LEFT + KINDS.index(kind) * (_GROUP + _APART) + pitch * block
    return x + 4 * wide // model.ranks * share, 4 * wide // model.ranks


def _row(model, rank=None):
    """Return y and height of the row of a rank, or of all rows."""
    if rank is None:
        return _TOP, _HIGH - _GAP
    pitch = _HIGH // model.ranks
    return _TOP + pitch * rank, pitch - _GAP


def _span(model, kind, first, last):
    """Return x and width of some blocks of a kind."""
    x, _ = _column(model, kind, first)
    end, wide = _column(model, kind, last, model.ranks - 1)
    return x, end + wide - x


def _middle(model, kind):
    """Return x of the middle of all blocks of a kind."""
    x, wide = _span(model, kind, 0, model.blocks - 1)
    return x + wide // 2


# --- what stays


def _places(model):
    """Yield the names of kinds and ranks, and a place for each block."""
    for kind, count in zip(KINDS, model.bytes):
        text, at = f"{kind}, {count} bytes each", (_middle(model, kind), 8)
        yield label(f"kind {kind}", at, text, role="label middle")
        for block in range(model.blocks):
            yield from _place(model, kind, block)
    yield label("blocks", (0, 26), "block", role="label soft")
    for rank in range(model.ranks):
        y, high = _row(model, rank)
        tip = f"rank {rank}: its shares have this colour"
        yield Item(f"rank {rank}", 0, y, 50, high, f"rank-{rank}", f"rank {rank}", tip)


def _place(model, kind, block):
    """Yield the place of a block in all rows, and its number."""
    (x, wide), (y, high) = _span(model, kind, block, block), _row(model)
    name, tip = f"{kind} {block}", f"{kind} of block {block + 1}"
    yield Item(f"place {name}", x, y, wide, high, "box", "", tip)
    if kind != "optimizer state":  # of which no moment names a block
        at, text = (x + wide // 2, 26), str(block + 1)
        yield label(f"block {name}", at, text, role="label middle soft")


def _references(model):
    """Yield what stands beside the bars: what they are, and DDP's bytes."""
    yield Item("DDP", _DDP, _HELD - 20, 0, _SENT + _BAR + 24 - _HELD, "limit line")
    texts = {
        (0, _TOP + _HIGH + 24): "holds",
        (0, _HELD): "a rank holds now",
        (130, _HELD): "at most so far",
        (_DDP + 6, _HELD): f"DDP: at most {size(model.ddp_holds)}",
        (0, _SENT): "it has sent so far",
        (_DDP + 6, _SENT): f"DDP: {size(float(model.ddp_sends))} in a step",
    }
    for (x, y), text in texts.items():
        yield label(f"text {x} {y}", (x, y - 12), text)
    at = 0, _SENT + _BAR + 18
    yield label("legend", at, _LEGEND, role="label soft")


# --- what changes


def _cells(model, moment):
    """Yield the shares: in all rows, or in that of their owner."""
    for block, share in itertools.product(range(model.blocks), range(model.ranks)):
        at = block, share
        yield from _weights(model, moment.weights[block], at)
        gradients = moment.gradients[block]
        if gradients != "none":
            pale = gradients in ("local", "part")
            yield _cell(model, "gradients", at, own=gradients == "own", pale=pale)
        if gradients == "part":
            yield _cell(model, "gradients", at, own=True, name="mean")
        yield _cell(model, "optimizer state", at, own=moment.state == "own")


def _weights(model, how, at):
    if how == "old":
        yield _cell(model, "weights", at, pale=True)
    if how in ("all", "own"):
        yield _cell(model, "weights", at, own=how == "own")
    else:  # what is new is another item: it comes out of the row of its owner
        yield _cell(model, "weights", at, own=how == "old", name="new")


def _cell(model, kind, at, *, own=False, pale=False, name=""):
    """Return a share: the `own` one of a rank alone, or that of all ranks."""
    block, share = at
    x, wide = _column(model, kind, block, share)
    y, high = _row(model, share if own else None)
    tip = f"{kind} of block {block + 1}, rank {share}'s share"
    role = f"event rank-{share}" + (" faded" if pale else "")
    return Item(f"{name or kind} {block} {share}", x, y, wide, high, role, "", tip)


def _gaps(model):
    """Yield what parts the rows."""
    for rank in range(1, model.ranks):
        y, _ = _row(model, rank)
        at = _LEFT - 2, y - _GAP, WIDTH - _LEFT, _GAP
        yield Item(f"gap {rank}", *at, "veil")


def _around(model, moment):
    """Yield a frame around what a moment is about."""
    if moment.focus:
        first, last = 0, model.blocks - 1
        if moment.block is not None:
            first = last = moment.block
        x, _ = _span(model, moment.focus[0], first, last)
        end, wide = _span(model, moment.focus[-1], first, last)
        at = x - 3, _TOP - 4, end + wide - x + 6, _HIGH + 4
        yield Item("around", *at, "place again")


def _counts(model, held):
    """Yield the bytes that a rank holds of each kind."""
    for kind, count in held.items():
        at, text = (_middle(model, kind), _TOP + _HIGH + 12), size(float(count))
        yield label(f"count {kind}", at, text, role="label middle")


def _bars(model, now, most, sent):
    """Yield what a rank holds, now and at most, and what it has sent, beside DDP's."""
    yield label("at most", (220, _HELD - 12), size(float(most)))
    wide = round(_DDP * most / model.ddp_holds)
    yield Item("most", 0, _HELD, wide, _BAR, "place")
    wide, text = round(_DDP * now / model.ddp_holds), size(float(now))
    yield Item("held", 0, _HELD, wide, _BAR, "card", text)
    wide, text = round(_DDP * sent / model.ddp_sends), size(float(sent))
    if sent:
        yield Item("sent", 0, _SENT, wide, _BAR, "card", text)
    else:
        yield label("nothing", (0, _SENT + _BAR / 2), text)
