"""Schedules of a pipeline, played: who computes when, and what is alive meanwhile."""

import itertools
import math
from collections.abc import Iterable, Mapping

from course_lib.errors import UsageError
from course_lib.scenes.arguments import whole_numbers
from course_lib.scenes.items import Axis, Item, Moment, label
from course_lib.scenes.scene import Scene, varied
from course_lib.scenes.timetable import KINDS, Timetable, played
from course_lib.text import listed, many, short

_LEFT, _TOP, _ROW, _GAP = 76, 26, 34, 8  # of 640, the width of a figure
_WIDTH = 438  # of the whole time
_RIGHT, _BAR = 546, 92  # of what is alive
_MOST = 32  # of devices and of micro-batches
_NAMES = {"schedule": "schedule", "p": "devices p", "m": "micro-batches m"}


def pipeline(schedules: dict, *, p=4, m=8, at: dict | None = None) -> Scene:
    """Play schedules, which are functions of p devices and m micro-batches.

    Each gives a list of (stage, "forward" or "backward", micro-batch); with more stages
    than devices, device d has the stages d, d + p and so on. `schedules` has them by
    name, `p` and `m` are one value or those that a slider offers, `at` has the first:
    `pipeline({"GPipe": gpipe, "1F1B": one_f_one_b}, p=[2, 4], m=[4, 8], at={"p": 4})`.
    Where a schedule raises a ValueError, what it says is shown; where it leaves out an
    instruction, that one is named.

    Errors: `UsageError` without a schedule, a device or a micro-batch, and for what is
    no instruction.
    """
    options = _options(schedules, p, m)
    at = {} if at is None else at
    if not isinstance(at, Mapping) or not at.keys() <= options.keys():
        names = listed(map(repr, options))
        raise UsageError(f"at is {short(at)}: expected a dict of {names}")
    plans = _plans(schedules, options)
    span = max(plan.span for plan in plans.values()) or 1
    widest = max(plan.peak for plan in plans.values()) or 1
    bottom = _TOP + max(options["p"]) * (_ROW + _GAP)

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
    if not isinstance(schedules, Mapping) or not all(map(callable, schedules.values())):
        raise UsageError(
            'pipeline() needs functions by name, such as {"GPipe": gpipe}: '
            f"found {short(schedules)}"
        )
    options = {
        "schedule": list(schedules),
        "p": whole_numbers("p", p, most=_MOST),
        "m": whole_numbers("m", m, most=_MOST),
    }
    for name, values in options.items():
        if not values:
            raise UsageError(f"{name}: a pipeline needs at least one")
    return options


def _plans(schedules, options):
    """Return the plan of each position of the sliders, stuck where there is none."""
    plans = {}
    for name, p, m in itertools.product(*options.values()):
        try:
            instructions = schedules[name](p, m)
        except ValueError as error:
            plans[name, p, m] = Timetable(p, p, [], str(error))
        else:
            plans[name, p, m] = _played(instructions, name, p=p, m=m)
    return plans


def _played(instructions, name, *, p, m):
    """Play a plan; where a step needs more than it has, the first of it is said."""
    if not isinstance(instructions, Iterable) or isinstance(instructions, str):
        raise UsageError(
            f"{name} returns {short(instructions)} for p={p}, m={m}: expected a list "
            "of instructions"
        )
    plan = played(instructions, p)
    done = {stretch[1:4] for stretch in plan.stretches}
    needed = itertools.product(KINDS, range(m), range(max(p, plan.stages)))
    for kind, number, stage in needed:
        if done and not plan.stuck and (stage, kind, number) not in done:
            missing = f"{kind} {number} of stage {stage} is missing"
            return plan._replace(stuck=f"{name} is not complete: {missing}.")
    return plan


def _moments(plans, position, *, scale, bottom):
    plan, (name, p, m) = plans[position], position
    rows = list(_rows(plan, bottom))
    if not plan.stretches:
        return [Moment(plan.stuck or f"{name} has no instruction.", rows)]
    moments = [Moment(f"{name}: {many(m, 'micro-batch')}, {many(p, 'device')}.", rows)]
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
        f"at most {_batches(plan.peak)} alive."
    )


def _rows(plan, bottom):
    yield label("alive", (_RIGHT, 10), "alive")
    yield Item("key forward", 522, bottom + 3, 53, 16, "forward", "forward")
    yield Item("key backward", 577, bottom + 3, 63, 16, "backward", "backward")
    for device in range(plan.devices):
        y, own = _y(device), range(device, plan.stages, plan.devices)
        yield label(f"device {device}", (0, y + 10), f"device {device}")
        noun = "stages" if len(own) > 1 else "stage"
        names = f"{noun} {', '.join(map(str, own))}"
        yield label(f"stages {device}", (0, y + 26), names, role="label soft")
        yield Item(f"row {device}", _LEFT, y, _WIDTH, _ROW, "box")


def _items(plan, time, scale):
    """Yield what has begun before this time, and what is alive then."""
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
        place = _RIGHT, _y(device) + 26
        yield label(f"count {device}", place, f"at most {_halves(most)}")


def _halves(number):
    """`5½` for 5.5."""
    whole = int(number)
    return f"{whole or ''}½" if number == whole + 0.5 else f"{number:.3g}"


def _batches(number):
    noun = "micro-batches" if number > 1 else "micro-batch"
    return f"{_halves(number)} {noun}"


def _y(device):
    return _TOP + device * (_ROW + _GAP)
