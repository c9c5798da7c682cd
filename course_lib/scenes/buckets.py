"""Buckets of DDP's reducer: they fill while backward runs, and leave full."""

import itertools
import math
from typing import NamedTuple

import torch
import torch.distributed as dist

from course_lib.errors import UsageError
from course_lib.scenes.arguments import real_number, several, whole_numbers
from course_lib.scenes.items import Axis, Item, Moment, fitting, label
from course_lib.scenes.scene import Scene, varied
from course_lib.text import many, size

_LEFT, _WIDTH, _HIGH = 84, 532, 28  # the last number of the axis needs room
_BACKWARD, _SENDING, _BUCKET = 8, 44, 134  # y of the rows
_SUM, _TICKS = 88, 100
_MIB = 2**20
_MOST = 40  # gradients, for a figure that can be read
_LARGEST, _LONGEST = 10**15, 10**6  # bytes, ms
_SOURCE = (
    "modelled: backward 1 ms per MB; all-reduces one after the other, each its latency"
    " and 1 ms per MB"
)


class BucketSend(NamedTuple):
    """The all-reduce of a bucket; from `start` to `stop`, in ms since backward began.

    `gradients` are numbers in the order of backward, `limit` and `size` bytes.
    """

    gradients: list
    limit: int
    size: int
    start: float
    stop: float


class BucketedStep(NamedTuple):
    """Gradients with their bytes, when they are there (ms), and what is sent."""

    sizes: list
    ready: list
    messages: list
    latency: float

    @property
    def end(self):
        """Return when all gradients are averaged, in ms."""
        return self.messages[-1].stop

    @property
    def hidden(self):
        """Return the ms for which something is sent while backward runs."""
        ends = ((m.start, min(m.stop, self.ready[-1])) for m in self.messages)
        return sum(max(0.0, stop - start) for start, stop in ends)


def buckets(sizes, *, cap=None, latency=0.5) -> Scene:
    """Play how gradients of a step fall into DDP's buckets, and when these leave.

    `sizes` are bytes, in the order in which backward makes the gradients. `cap` is
    DDP's `bucket_cap_mb` in MiB, None its default; `latency` the ms that an all-reduce
    takes however small it is: one value, or a list for a slider, its first shown first.
    PyTorch's own function makes the buckets, as after DDP's first step. Times are
    modelled: 1 ms per MB in backward, and again in an all-reduce.

    Errors: `UsageError` for sizes, limits and times that are none; for more than 40
    gradients.
    """
    sizes = whole_numbers("a gradient", sizes, least=0, most=_LARGEST)
    if not 0 < len(sizes) <= _MOST:
        raise UsageError(
            f"cannot show {many(len(sizes), 'gradient')}: the figure has room for 1 to"
            f" {_MOST}"
        )
    limits = dict(map(_limits, several(cap)))
    switches = {
        "cap (MiB)": list(limits),
        "latency (ms)": [
            real_number("latency", value, most=_LONGEST) for value in several(latency)
        ],
    }
    steps = {
        values: step(sizes, limits[values[0]], values[1])
        for values in itertools.product(*switches.values())
    }
    end = max(1.32 * sum(sizes) / 1e6, *(it.end for it in steps.values()), 1e-3)
    return varied(
        lambda **values: _moments(steps[tuple(values.values())], end),
        switches,
        axis=Axis(_LEFT, _WIDTH, 4, _TICKS, 0, end, "ms"),
        height=_BUCKET + _HIGH + 26,
        source=_SOURCE,
    )


# --- what DDP does


def step(sizes, limits, latency) -> BucketedStep:
    """Return when each gradient is there, and each bucket under way."""
    ready = list(itertools.accumulate(count / 1e6 for count in sizes))
    # private: DDP calls it too, and nothing public tells its buckets
    tensors = [torch.empty(count, dtype=torch.uint8, device="meta") for count in sizes]
    assigned, caps = dist._compute_bucket_assignment_by_size(tensors, limits)
    messages, free = [], 0.0
    for gradients, limit in zip(assigned, caps):
        count = sum(sizes[i] for i in gradients)
        start = max(free, ready[gradients[-1]])
        free = start + latency + count / 1e6
        messages.append(BucketSend(gradients, limit, count, start, free))
    return BucketedStep(sizes, ready, messages, latency)


def _limits(cap):
    """Return the name of a value of the slider, and DDP's limits in bytes."""
    if cap is None:
        return "1, then 25", [_MIB, 25 * _MIB]  # the first bucket, all others
    cap = real_number("cap", cap, least=0.001, most=1e9)
    return f"{cap:g}", [math.ceil(cap * _MIB)]


# --- what is to be seen


def _moments(step, end):
    yield Moment("Backward begins, at the last layer.", _items(step, end))
    come = 0
    for number, message in enumerate(step.messages):
        for _ in message.gradients:
            come += 1
            items = _items(step, end, come=come, left=number)
            yield Moment(_coming(step, come, number), items)
        items = _items(step, end, come=come, left=number + 1)
        yield Moment(_leaving(step, come, number), items)
    items = list(_items(step, end, come=come, left=number + 1, over=True))
    yield Moment(_last(step), [*items, *_sums(step, end)])


def _coming(step, come, number):
    bucket = step.messages[number]
    held = sum(step.sizes[i] for i in bucket.gradients if i < come)
    what = f"Gradient {come} of {len(step.sizes)} comes, {size(step.sizes[come - 1])}."
    if held >= bucket.limit:
        return f"{what} Bucket {number + 1} is full with {size(held)}."
    return f"{what} Bucket {number + 1} holds {size(held)} of {size(bucket.limit)}."


def _leaving(step, come, number):
    message, now = step.messages[number], step.ready[come - 1]
    what = f"ucket {number + 1} leaves as an all-reduce of {size(message.size)}"
    after = ", after the one before" if message.start > now else ""
    if come == len(step.sizes):
        return f"Backward has ended, so b{what}{after}."
    return f"B{what}{after or ', and backward goes on'}."


def _last(step):
    count, after = len(step.messages), step.end - step.ready[-1]
    sends = f"{many(count, 'all-reduce')}, all done after {step.end:.1f} ms"
    return f"{sends}: {after:.1f} ms after backward."


def _items(step, end, *, come=0, left=0, over=False):
    yield label("backward", (0, _BACKWARD + _HIGH / 2), "backward")
    yield label("sending", (0, _SENDING + _HIGH / 2), "all-reduce")
    yield label("ms", (0, _TICKS + 12), "ms")
    for number in range(come):
        yield _computed(step, number)
    for number in range(left):
        yield from _sent(step, number, end)
    now = step.ready[come - 1] if come else 0.0
    if over:
        now = step.end
    yield Item("veil", now, _SENDING - 1, end - now, _HIGH + 2, "timed veil")
    if not over:
        yield Item("now", now, 4, 0, _TICKS - 4, "timed now line")
    if left < len(step.messages):
        yield from _filling(step, come, left)


def _computed(step, number):
    name, count = f"computed {number}", step.sizes[number]
    time, role = count / 1e6, "timed event backward"
    tip = f"backward: gradient {number + 1}, {size(count)}"
    place = step.ready[number] - time, _BACKWARD, time, _HIGH
    return Item(name, *place, role, size(count), tip)


def _sent(step, number, end):
    """Yield the latency, which is the same for all, and the gradients behind it."""
    message, room = step.messages[number], (_SENDING, step.latency, _HIGH)
    name = f"all-reduce {number + 1}"
    text = fitting(f"{step.latency:g} ms", step.latency * _WIDTH / end)
    tip = f"{name}: {step.latency:g} ms of latency, then its gradients"
    yield Item(name, message.start, *room, "timed card", text, tip)
    x = message.start + step.latency
    tip = f"{name}: {many(len(message.gradients), 'gradient')}, {size(message.size)}"
    for i in message.gradients:
        wide, text = step.sizes[i] / 1e6, size(step.sizes[i])
        where = x, _SENDING, wide, _HIGH
        yield Item(f"gradient {i}", *where, "timed event communicate", text, tip)
        x += wide


def _filling(step, come, number):
    """Yield the bucket that fills, and, not yet seen, the gradient that comes next."""
    bucket = step.messages[number]
    scale = _scale(step)
    name, y = f"bucket {number + 1}", _BUCKET + _HIGH / 2
    yield label("bucket", (0, y), name)
    limit = min(bucket.limit * scale, _WIDTH)
    yield Item("room", _LEFT, _BUCKET - 3, limit, _HIGH + 6, "box")
    if limit < _WIDTH:
        yield Item("limit", _LEFT + limit, _BUCKET - 6, 0, _HIGH + 12, "limit line")
    full = f"full at {size(bucket.limit)}"
    yield label("full", (_LEFT, _BUCKET + _HIGH + 14), full, role="label soft")
    x = _LEFT
    for i in bucket.gradients:
        count = step.sizes[i]
        where = x, _BUCKET, max(1.2, count * scale), _HIGH
        if i < come:
            text = fitting(size(count), count * scale)
            tip = f"gradient {i + 1}, {size(count)}, in {name}"
            yield Item(f"gradient {i}", *where, "gradients", text, tip)
        x += count * scale
    if come < len(step.sizes):
        next_, role = _computed(step, come), "timed event gone"
        yield next_._replace(id=f"gradient {come}", role=role, tip="")


def _sums(step, end):
    """Yield what backward hides, what it does not, and the buckets side by side."""
    stop, gap = step.ready[-1], 0.01 * end
    yield Item("stop", stop, 4, 0, _TICKS - 4, "timed limit line")
    hidden = f"hidden {step.hidden:.1f} ms"
    yield Item("hidden", stop - gap, _SUM, 0, 0, "timed label end", hidden)
    late = f"not hidden {step.end - stop:.1f} ms"
    yield Item("late", stop + gap, _SUM, 0, 0, "timed label", late)
    x, scale = _LEFT, _scale(step)
    yield label("bucket", (0, _BUCKET + _HIGH / 2), "buckets")
    for number, message in enumerate(step.messages, 1):
        wide = max(1.2, message.size * scale)
        text = fitting(size(message.size), wide)
        tip = f"bucket {number}: {many(len(message.gradients), 'gradient')}, "
        tip += size(message.size)
        where = x, _BUCKET, wide, _HIGH
        yield Item(f"bucket {number}", *where, "gradients", text, tip)
        x += wide


def _scale(step):
    return _WIDTH / (1.55 * sum(step.sizes) or 1)
