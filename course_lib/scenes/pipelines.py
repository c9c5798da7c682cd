"""Schedules of a pipeline, played: who computes when, and what is alive meanwhile."""

import itertools
import math

from course_lib.errors import UsageError
from course_lib.scenes.items import Axis, Item, Moment, label
from course_lib.scenes.scene import Scene, varied
from course_lib.scenes.schedules import Timetable, played
from course_lib.text import listed, many

_LEFT, _TOP, _ROW, _GAP = 76, 26, 34, 8  # of 640, the width of a figure
_WIDTH = 438  # of the whole time
_RIGHT, _BAR = 546, 92  # of what is alive
_NAMES = {"schedule": "schedule", "p": "devices p", "m": "micro-batches m"}


def pipeline(schedules: dict, *, p=(4,), m=(8,), at: dict | None = None) -> Scene:
    """Play schedules, which are functions of p devices and m micro-batches.

    Each gives a list of (stage, "forward" or "backward", micro-batch); with more stages
    than devices, device d has the stages d, d + p and so on. `schedules` has them by
    name, `p` and `m` are the values that sliders offer; those in `at` come first:
    `pipeline({"GPipe": gpipe, "1F1B": one_f_one_b}, p=[2, 4], m=[4, 8], at={"p": 4})`.
    Where a schedule raises a ValueError, what it says is shown.

    Errors: `UsageError` without a schedule, a device or a micro-batch, and for what is
    no instruction.
    """
    options = _options(schedules, p, m)
    at = {name: (at or {}).get(name, values[0]) for name, values in options.items()}
    plans = _plans(schedules, options)
    span = max((plan.span for plan in plans.values()), default=0) or 1
    widest = max((plan.peak for plan in plans.values()), default=0) or 1
    bottom = _TOP + max(p) * (_ROW + _GAP)

    def moments(**values):
        at = tuple(values.values())
        return _moments(plans, at, scale=_BAR / widest, bottom=bottom)

    return varied(
        moments,
        {_NAMES[name]: values for name, values in options.items()},
        at={_NAMES[name]: value for name, value in at.items()},
        axis=Axis(_LEFT, _WIDTH, _TOP, bottom, 0, span, "units"),
        height=bottom + 22,
        source="modelled: forward 1 unit of time, backward 2, copies 0",
        seconds=0.5,
    )


def _options(schedules, p, m):
    options = {"schedule": [*schedules], "p": [*p], "m": [*m]}
    counts = [*options["p"], *options["m"]]
    if all(options.values()) and all(isinstance(n, int) and n > 0 for n in counts):
        return options
    raise UsageError(
        "a pipeline needs a schedule, devices and micro-batches: "
        f"found {options['schedule']}, p={options['p']}, m={options['m']}"
    )


def _plans(schedules, options):
    """The plan of each position of the sliders; it is stuck where there is none."""
    plans = {}
    for name, p, m in itertools.product(*options.values()):
        try:
            instructions = schedules[name](p, m)
        except ValueError as error:
            plans[name, p, m] = Timetable(p, p, [], str(error))
        else:
            plans[name, p, m] = played(instructions, p)
    return plans


def _moments(plans, position, *, scale, bottom):
    plan, (name, p, m) = plans[position], position
    rows = [*_rows(plan, bottom)]
    if not plan.stretches:
        return [Moment(plan.stuck or f"{name} has no instruction.", rows)]
    batches = f"{m} micro-batch{'es' * (m > 1)}"
    moments = [Moment(f"{name}: {batches}, {many(p, 'device')}.", rows)]
    for time in range(1, math.ceil(plan.span) + 1):
        title = f"Time {time}: {_who(plan.waiting(time - 1, min(time, plan.span)))}."
        now = Item("now", time, 8, 0, _TOP - 10, "timed arrow")
        moments.append(Moment(title, [*rows, *_items(plan, time, scale), now]))
    items = [*rows, *_items(plan, plan.span, scale)]
    return [*moments, Moment(_last(plan, name), items)]


def _who(waiting):
    if not waiting:
        return "all devices compute"
    if len(waiting) == 1:
        return f"device {waiting[0]} waits"
    return f"devices {listed(waiting)} wait"


def _last(plan, name):
    share = f"{plan.bubble:.0%}".replace("%", " %")
    return plan.stuck or (
        f"{name}: {plan.span:g} units, {share} of them bubble; "
        f"at most {_halves(plan.peak)} micro-batches alive."
    )


def _rows(plan, bottom):
    yield label("alive", (_RIGHT, 10), "alive")
    yield Item("key forward", 522, bottom + 3, 53, 16, "forward", "forward")
    yield Item("key backward", 577, bottom + 3, 63, 16, "backward", "backward")
    for device in range(plan.devices):
        y, own = _y(device), range(device, plan.stages, plan.devices)
        yield label(f"device {device}", (0, y + 10), f"device {device}")
        names = f"stage{'s' * (len(own) > 1)} {', '.join(map(str, own))}"
        yield label(f"stages {device}", (0, y + 26), names, role="label soft")
        yield Item(f"row {device}", _LEFT, y, _WIDTH, _ROW, "box")


def _items(plan, time, scale):
    """What has begun before this time, and what is alive then."""
    lanes = plan.stages // plan.devices
    high = _ROW / lanes
    for _, stage, kind, number, start, stop in plan.stretches:
        if start < time:
            y = _y(stage % plan.devices) + stage // plan.devices * high
            tip = f"stage {stage}: {kind} {number}"
            name, role = f"{kind} {stage} {number}", f"timed event {kind}"
            yield Item(name, start, y, stop - start, high, role, str(number), tip)
    for device in range(plan.devices):
        alive, most = plan.alive(device, time), plan.most(device, time)
        at = _RIGHT, _y(device)
        text = _halves(alive) if alive >= 1 else ""  # which fits into the bar
        yield Item(f"most {device}", *at, most * scale, 16, "place")
        yield Item(f"now {device}", *at, alive * scale, 16, "activations", text)
        yield label(
            f"count {device}", (_RIGHT, _y(device) + 26), f"at most {_halves(most)}"
        )


def _halves(number):
    """`5½` for 5.5."""
    whole = int(number)
    return f"{whole or ''}½" if number == whole + 0.5 else f"{number:.3g}"


def _y(device):
    return _TOP + device * (_ROW + _GAP)
