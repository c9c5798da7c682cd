"""A measured step of own DDP beside PyTorch's: gradients, buckets, all-reduces."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from course_lib.colors import ROLE_COLORS
from course_lib.errors import UsageError
from course_lib.scenes.items import Axis, Item, Moment, cut, label
from course_lib.scenes.overlap_steps import PlayedStep, read_step
from course_lib.scenes.overlap_words import (
    NAME,
    alt,
    named,
    result,
    short_name,
    source,
    stops,
)
from course_lib.scenes.scene import LARGEST, WIDTH, Scene, unlimited
from course_lib.scenes.svg import class_name
from course_lib.scenes.timeline_bars import bars_of
from course_lib.text import duration, listed, many, size, unit_of
from course_lib.tracing.events import Trace

_LEFT, _RIGHT, _TOP = 84, 10, 26
_COMPUTE, _BUCKET, _LANE = 18, 30, 16  # heights of rows
_PIN, _GAP = 7, 12  # between compute and buckets, buckets and what is sent
_LANES = 3  # what overlaps more than that shares the last one
_RUNS = 3
_BARS, _STOPS, _PARTS = 60, 40, (1, 2, 4, 8)
_ALL = 80  # gradients of all runs
_CROWD = 12  # lines from buckets, more of which would be a thicket


def overlap(runs, *, step: int | None = None) -> Scene:
    """Play a step of measured runs: gradients come, fill buckets, and are sent.

    `runs` are traces by name, `{"mine": run.trace, "DDP": other.trace}`; each may
    be a pair of a trace and the marks of rank 0, a list of `(name, bytes, time.time())`
    which hooks of `register_post_accumulate_grad_hook` noted on every gradient. Shown
    is rank 0 in its median step, or in number `step` of `trace.steps()`; 0 is when its
    backward begins. A mark is the host's time: on a GPU the kernels come later.

    Which all-reduce carries a gradient follows from bytes and order. Where these leave
    none or several answers, nothing is drawn, and a note says why.

    Errors: `UsageError` where there is no event, for marks of another clock, for more
    than 40 gradients in a step, 80 in all, or 3 runs.
    """
    runs = runs if isinstance(runs, Mapping) else {"": runs}
    if not 0 < len(runs) <= _RUNS:
        raise UsageError(
            "there is no trace to draw: give one, or a dict of them"
            if not runs
            else f"cannot show {len(runs)} runs: the figure has room for {_RUNS}"
        )
    steps = {str(name): read_step(str(name), it, step) for name, it in runs.items()}
    if (count := sum(len(it.ready) for it in steps.values())) > _ALL:
        raise UsageError(
            f"cannot show {count} gradients: the figure has room for {_ALL}"
        )
    for part in _PARTS:  # many gradients and long names take much of the size
        scene = _scene(steps, part)
        if len(unlimited(scene)) <= LARGEST:
            break
    return scene


def _scene(steps, part):
    """With a part of all stops and bars; if that is small, nothing falls either."""
    rows, y = [], float(_TOP)
    for place, (name, step) in enumerate(steps.items()):
        falls, lanes = part < 4, _lanes(step.sent)
        rows.append(_Band(cut(name, NAME), place, step, y, lanes, falls))
        y = rows[-1].bottom + 12
    computed = {name: Trace(step.compute, "") for name, step in steps.items()}
    drawn = [*bars_of(computed, _BARS * len(rows) // part).values()]
    scale = _scaled(rows)
    still = [*_legend(rows, drawn), *_titles(rows, scale)]
    for row, own in zip(rows, drawn):
        still += _computed(row, own, scale)
    moments = []
    for time, said in [*stops(steps, _STOPS // part), (math.inf, [])]:
        moving = [it for row in rows for it in _moving(row, time, scale)]
        title = f"{scale.told(time)}: {'; '.join(said)}." if said else result(steps)
        items = *still, *moving, *_cover(rows, time, scale)
        moments.append(Moment(title, items))
    return Scene(
        moments,
        height=scale.axis.bottom + 24,
        axis=scale.axis,
        alt=alt(steps),
        source=source(steps),
    )


# --- rows


class _Band(NamedTuple):
    """The place of a run: a title, and rows for compute, buckets, what is sent.

    `lanes` tell which part of the last row each of `step.sent` has. Where nothing
    `falls`, things come where they stand, without frames.
    """

    name: str
    place: int
    step: PlayedStep
    top: float
    lanes: list
    falls: bool

    @property
    def says(self):
        """Return what stands before each tip, if there is room for it."""
        return named(self.name) if self.falls else ""

    @property
    def compute(self):
        return self.top + 18

    @property
    def bucket(self):
        return self.compute + _COMPUTE + _PIN

    def lane(self, index):
        """Where number `index` of `step.sent` stands."""
        return self.sends + self.lanes[index] * (_LANE + 2)

    @property
    def sends(self):
        return self.bucket + (_BUCKET + _GAP if self.step.ready else 0)

    @property
    def bottom(self):
        return self.sends + (max(self.lanes, default=-1) + 1) * (_LANE + 2)


class _Scale(NamedTuple):
    """Turns seconds into the unit of the axis."""

    factor: float
    axis: Axis

    def span(self, start, stop):
        """Return x and w of an item from start to stop."""
        return start * self.factor, (stop - start) * self.factor

    def told(self, seconds):
        """Return a time in words."""
        return f"{seconds * self.factor:.3g} {self.axis.unit}"


def _lanes(sent):
    """Give each of what is sent the first lane that is free."""
    ends, lanes = [-math.inf] * _LANES, []
    for it in sent:
        free = (i for i, end in enumerate(ends) if end <= it.start)
        lanes.append(next(free, _LANES - 1))
        ends[lanes[-1]] = max(ends[lanes[-1]], it.stop)
    return lanes


def _scaled(rows):
    """From just before the first event of all runs to just after their last."""
    times = [time for row in rows for time in row.step.times] or [0.0]
    first, last = min(times), max(times)
    factor, unit = unit_of(last - first or 1e-6)
    length = (last - first or 1e-6) * factor
    axis = Axis(
        left=_LEFT,
        width=WIDTH - _LEFT - _RIGHT,
        top=_TOP - 4,
        bottom=rows[-1].bottom + 2,
        start=first * factor - 0.005 * length,
        length=1.01 * length,
        unit=unit,
    )
    return _Scale(factor, axis)


def _titles(rows, scale):
    for row in rows:
        step = row.step
        text = f"{row.name}: {step.which}" if row.name else step.which
        yield label(f"{row.place} title", (0, row.top + 7), text, role="label strong")
        names = {"computes": row.compute + _COMPUTE / 2}
        if step.ready:
            names["buckets"] = row.bucket + _BUCKET / 2
        if step.sent:
            names["sends"] = row.sends + _LANE / 2
        for word, y in names.items():
            yield label(f"{row.place} {word}", (0, y), word)
    unit, y = f"time ({scale.axis.unit})", scale.axis.bottom + 12
    yield label("unit", (0, y), unit, role="label soft")


def _legend(rows, drawn):
    """Yield a swatch and a name for each role that occurs."""
    roles = {bar.role for bars in drawn for bar in bars}
    sent = [it for row in rows for it in row.step.sent]
    roles |= {"communicate"} if sent else set()
    roles |= {"wait"} if any(it.entry > it.start for it in sent) else set()
    x = float(_LEFT)
    for name in ROLE_COLORS:
        if name in roles:
            yield Item(f"swatch {name}", x, 4, 11, 11, class_name(name))
            yield label(f"legend {name}", (x + 16, 10), name)
            x += 16 + 7.2 * len(name) + 14  # some fonts are wide


def _computed(row, bars, scale):
    """Yield the bars of the upper row."""
    for number, bar in enumerate(bars):
        x, wide = scale.span(bar.start, bar.stop)
        what = bar.name[:40]
        tip = what if bar.events == 1 else f"{bar.events:,} calls such as {what}"
        looks = f"timed event {class_name(bar.role)}"
        where = x, row.compute, wide, _COMPUTE
        text = bar.role if bar.role in what else ""
        yield Item(f"{row.place} bar {number}", *where, looks, text, row.says + tip)


def _cover(rows, time, scale) -> Iterator[Item]:
    """Yield veils over what comes after `time`, and a line; nothing at the end."""
    if time == math.inf:
        return
    axis, now = scale.axis, time * scale.factor
    for row in rows:
        place = now, row.compute - 2, axis.start + axis.length - now
        high = row.bottom - row.compute + 4
        yield Item(f"{row.place} veil", *place, high, "veil timed")
    yield Item("now", now, axis.top, 0, axis.bottom - axis.top, "now line timed")


# --- what comes, falls and leaves


def _moving(row, now, scale):
    """Yield what has come by `now` in its place, the rest unseen where it starts."""
    step = row.step
    for bucket in step.buckets:
        yield from _bucket(row, bucket, now, scale)
    for number in range(len(step.ready)):
        yield from _gradient(row, number, now, scale)
    for index in range(len(step.sent)):
        yield from _sending(row, index, now, scale)
    if step.after and now >= step.ready[-1].time:
        yield from _after(row, now, scale)


def _bucket(row, bucket, now, scale):
    """Yield the frame of a bucket that fills, and the line on which it leaves."""
    step, inside = row.step, row.step.buckets[bucket]
    begin, full = step.ready[inside[0]].time, step.until(inside[-1])
    if row.falls and len(inside) > 1 and now >= begin:
        x, wide = scale.span(begin, full)
        where = x, row.bucket, wide, _BUCKET
        yield Item(f"{row.place} bucket {bucket}", *where, "timed box")
    index = step.place_of(bucket)
    it = step.sent[index]
    x, wide = scale.span(full, max(full, it.start))
    top, crowded = row.bucket + _BUCKET, len(step.buckets) > _CROWD
    # through rows of bars only where it lies below them
    high = row.lane(index) - top if row.falls and not crowded else _GAP
    where, name = (x, top, wide, high), f"{row.place} way {bucket}"
    looks = "timed line faded" if crowded else "timed line"
    if now >= it.start:
        late = duration(max(0.0, it.start - step.ready[inside[-1]].time))
        tip = f"{row.says}bucket {bucket} leaves {late} after its last gradient"
        yield Item(name, *where, looks, "", tip if row.falls else "")
    elif row.falls:  # from the beginning, so that it lies below bars
        yield Item(name, *where, f"{looks} gone")


def _gradient(row, number, now, scale):
    """Yield its pin under backward, and its share of a bucket, fallen from there."""
    step, name = row.step, f"{row.place} gradient {number}"
    it, bucket = step.ready[number], step.bucket_of(number)
    if now >= it.time:
        pin = it.time * scale.factor, row.compute + _COMPUTE, 0
        high = _PIN if bucket else _PIN + _BUCKET
        what = f"{row.says}{short_name(it.name)}, {size(it.bytes)}"
        if not bucket:
            what += f", in no known all-reduce: {step.why[number]}"
        looks = "timed event gradients"
        if row.falls or not bucket:
            yield Item(f"{name} pin", *pin, high, looks, "", what)
        if bucket:
            yield _share(row, number, scale, what)
    elif bucket and row.falls:
        gone = _share(row, number, scale, "")
        yield gone._replace(y=row.compute, role=f"{gone.role} gone", text="", tip="")


def _share(row, number, scale, what):
    """Return what a gradient adds to its bucket, as high as it is filled then."""
    step, bucket = row.step, row.step.bucket_of(number)
    inside, (held, whole) = step.buckets[bucket], step.filled(number)
    high = max(2.0, _BUCKET * held / (whole or 1))
    x, wide = scale.span(step.ready[number].time, step.until(number))
    where = x, row.bucket + _BUCKET - high, wide, high
    text = str(bucket) if number == inside[-1] else ""
    tip = f"{what}, in bucket {bucket}"
    if row.falls:
        tip = f"{what} comes: bucket {bucket} holds {inside.index(number) + 1} of"
        tip += f" {many(len(inside), 'gradient')}, {size(held)} of {size(whole)}"
    name = f"{row.place} gradient {number}"
    return Item(name, *where, "timed event gradients", text, tip)


def _sending(row, index, now, scale):
    """Yield the wait for others and the bar of what is sent, come from its bucket."""
    it, name = row.step.sent[index], f"{row.place} send {index}"
    come = now >= it.start
    if not (come or row.falls):
        return
    looks, y = ("", row.lane(index)) if come else (" gone", row.bucket)
    if it.entry - it.start > scale.axis.length / scale.factor / 1000:
        x, wide = scale.span(it.start, it.entry)
        tip = f"{row.says}{it.title} " if row.falls else ""
        tip = f"{tip}waits for another rank" if come else ""
        where = x, y, wide, _LANE
        yield Item(f"{name} wait", *where, f"timed event wait{looks}", "", tip)
    x, wide = scale.span(it.entry, it.stop)
    tip = f"{row.says}{it.title}, {size(it.bytes)}{_contents(row.step, it)}"
    texts = (size(it.bytes) if it.bytes else it.title, tip) if come else ("", "")
    looks = f"timed event communicate{looks}"
    yield Item(name, x, y, wide, _LANE, looks, *texts)


def _contents(step, sent):
    """Say which gradients it carries; nothing where that is not known."""
    numbers = step.buckets.get(sent.number, [])
    inside = [short_name(step.ready[i].name) for i in numbers]
    if len(inside) > 4:
        inside = [*inside[:3], f"{len(inside) - 3} more"]
    return f": {listed(inside)}" if inside else ""


def _after(row, now, scale):
    """Yield a ground from the last gradient on, and when all is sent its length."""
    start, after = row.step.ready[-1].time, row.step.after
    x, wide = scale.span(start, start + after)
    where = x, row.compute - 3, wide, row.bottom - row.compute + 4
    told = f"{duration(after)} after the last gradient"
    tip = f"{row.says}after the last gradient nothing hides what is sent, for"
    tip += f" {duration(after)}"
    yield Item(f"{row.place} finish", *where, "timed box", "", tip)
    if now >= start + after:
        at = WIDTH - _RIGHT, row.top + 7
        text = f"sends until {told}"
        yield label(f"{row.place} after", at, text, role="label end")
