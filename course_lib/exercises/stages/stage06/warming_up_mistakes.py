"""Rates that are wrong, and the hints for them."""

from course_lib.exercises.stages.stage06.warming_up_ramps import OWN, RAMPS, until, up

_TOLERANCE = 1e-4  # a share of the rate: room for float32, and for rounding
# hints, and the factor of the own rate that makes the mistake at warmup_steps=0
_AT_ONCE = (
    (
        "Update 0 is not k times as fast yet. warmup_steps=0 is no warm-up of one"
        " update: make_scheduler itself must set the rate, step() comes too late.",
        lambda k, u: k if u else 1,
    ),
    (
        "The rate is never raised. A ramp of no updates stands at its end from the"
        " start, not at its beginning.",
        lambda k, u: 1,
    ),
)


def rates(case: tuple, updates: int, own: float) -> list[float]:
    """The right rate of each update, for a group of a rate of its own."""
    k, w = case
    return [own * up(k, until(w, u) if w else 1) for u in range(updates)]


def differs(found: float | None, expected: float) -> bool:
    """True if a rate is not there or not the expected one."""
    return found is None or abs(found - expected) > _TOLERANCE * abs(expected)


def why_rates(seen: dict, case: tuple) -> str:
    """The hint for wrong rates: those of the first group tell, if they are wrong."""
    k, w = case
    found = [[number for number, _ in groups] for groups in seen["used"]]
    first, second = ([numbers[i] for numbers in found] for i in (0, 1))
    updates = len(first)
    if _same(first, rates(case, updates, OWN[0])):
        return _why_second(first, second)
    if w == 0:
        return _why_at_once(first, k)
    if None in first:
        return 'The rate of a group, group["lr"], must be one number.'
    if seen["ahead"] >= 1 and _same(first[:-1], rates(case, updates, OWN[0])[1:]):
        return (
            "make_scheduler has called the scheduler's step() itself, so one step too"
            " many has been made. Only the training loop calls it."
        )
    if (k, w) != (8, 10) and _same(first, [k * OWN[0]] * updates):
        return _why_later(w)
    for hint, factor in RAMPS:
        if _same(first, [OWN[0] * factor(k, w, u) for u in range(updates)]):
            return hint
    return _why_shape(first, k * OWN[0], w)


def _why_shape(first, top, w):
    """The hint for a ramp of no known form, from its foot, its top and what follows."""
    before, after = first[: w + 1], first[w:]
    right = rates((top / OWN[0], w), w + 1, OWN[0])
    # the one before the top tells: a fall may come in update warmup_steps already
    if _same(before[:-1], right[:-1]):
        falls = min(after) < top * (1 - _TOLERANCE)
        if _same(before, right) and not falls:
            return (
                "After the warm-up the rate goes on rising. Let the share not exceed 1:"
                " min(1, update / warmup_steps)."
            )
        if falls:
            return (
                "The warm-up is right, but then the rate falls. It stays at k times"
                " the own one."
            )
    flat = _same(first[:1], OWN[:1]) and _same(after, [top] * len(after))
    if flat and all(a <= b for a, b in zip(first, first[1:])):
        return (
            "Start and end are right, but not by equal amounts: from update to update"
            " the same number is added, (k - 1) / warmup_steps of the own rate."
        )
    return (
        "In update 0 the factor is 1, in update warmup_steps and after it the factor is"
        " k, and halfway it is halfway between the two."
    )


def _same(found, expected):
    return not any(map(differs, found, expected))


def _why_second(first, second):
    if _same(second, first):
        return (
            "Both groups get the rate of the first. Each has a rate of its own, and k"
            " times that is where it ends."
        )
    if _same(second, [OWN[1]] * len(second)):
        return (
            "Only the first group is raised: optimizer.param_groups may hold several,"
            " so go through all of them."
        )
    return "The rates of the first group are right. All groups have the same factor."


def _why_at_once(first, k):
    for hint, factor in _AT_ONCE:
        if _same(first, [OWN[0] * factor(k, update) for update in range(len(first))]):
            return hint
    if None in first:
        return "0 / 0 is no number (nan): warmup_steps=0 needs a case of its own."
    return "For warmup_steps=0 all updates, from 0 on, use k times the own rate."


def _why_later(w):
    if w == 1:
        return (
            "A warm-up of one update is one, too: update 0 uses the own rate, update 1"
            " uses k times that."
        )
    return (
        "The training before this one was right, and here the warm-up is over from the"
        " start: a counter of yours goes on from call to call. Start it anew."
    )
