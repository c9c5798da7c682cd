"""Ramps that go wrong: hints, and what multiplies the own rate in each update."""

import math

OWN = (0.1, 0.02)  # the rates of the two parameter groups


def until(w, u):
    """The share of a warm-up of w updates that is over in update u."""
    return min(1, u / w)


def up(k, share):
    """The factor of the own rate: 1 at a share of 0, k at 1."""
    return 1 + (k - 1) * share


_FROM_ZERO = (
    "This warm-up comes from a rate of 0. The optimizer's own rate is known to work:"
    " start there, only what is above it comes in gradually."
)
_NOT_K = (
    "The warm-up ends at the optimizer's own rate. It starts there, and ends at k"
    " times that."
)
_EARLY = (
    "Everything comes one update early: update 0 still uses the own rate, so the"
    " first step() leads to update 1."
)
_LATE = "Everything comes one update late: the first step() already prepares update 1."
_JUMP = (
    "The rate waits and then jumps. It rises a little in each update of the warm-up."
    " (`update // warmup_steps` is 0 all the time: divide with one `/`.)"
)
_BEYOND = (
    "From 1 to k the factor rises by k - 1, not by k: this ramp aims one own rate too"
    " high."
)
_COMPOUND = (
    "Each step multiplies what the step before has multiplied, so the factors pile up."
    " Remember the own rates at the start, and multiply those."
)
_STAIRS = (
    "The factor is rounded to whole numbers: the rate climbs stairs. Do not round."
)
_TO_OWN = (
    "The ramp is that of a warm-up from 0 to the own rate, and then comes a jump to k"
    " times. Let the ramp itself go from 1 to k."
)
_ADDED = (
    "k is added to the rate. It is a factor: k *times* the own rate, so the whole rise"
    " is (k - 1) times the own rate."
)
# hints, and the factor of the own rate in update u that makes the mistake
RAMPS = (
    (
        "The rate never changes. Either step() does not write it into every group's"
        ' group["lr"], or the factor is always 1.',
        lambda k, w, u: 1,
    ),
    (
        "This is k times the rate at once, without a warm-up. That is right only for"
        " warmup_steps=0.",
        lambda k, w, u: k,
    ),
    (_FROM_ZERO, lambda k, w, u: k * until(w, u)),
    (_FROM_ZERO, lambda k, w, u: k * min(1, (u + 1) / w)),
    (_FROM_ZERO, lambda k, w, u: k * min(1, (u + 1) / (w + 1))),
    (_FROM_ZERO, lambda k, w, u: (k - 1) * until(w, u)),
    (_NOT_K, lambda k, w, u: until(w, u)),
    (_NOT_K, lambda k, w, u: min(1, (u + 1) / w)),
    (_NOT_K, lambda k, w, u: min(1, (u + 1) / (w + 1))),
    (_NOT_K, lambda k, w, u: up(k, until(w, u)) / k),
    (_NOT_K, lambda k, w, u: up(3, min(1, u / 5)) / 3),  # LinearLR's defaults
    (_NOT_K, lambda k, w, u: up(3, until(w, u)) / 3),
    (_NOT_K, lambda k, w, u: up(k, min(1, u / 5)) / k),
    (
        "LinearLR ends its ramp after 5 updates unless it gets total_iters.",
        lambda k, w, u: up(k, min(1, u / 5)),
    ),
    (_EARLY, lambda k, w, u: up(k, min(1, (u + 1) / w))),
    (_LATE, lambda k, w, u: up(k, until(w, max(0, u - 1)))),
    (
        "The ramp is one update too long: k times is reached in update warmup_steps,"
        " not in the one after it.",
        lambda k, w, u: up(k, min(1, u / (w + 1))),
    ),
    (
        "The ramp is one update too short. From update 0 to update warmup_steps there"
        " are warmup_steps + 1 rates: linspace(1, k, warmup_steps + 1).",
        lambda k, w, u: up(k, min(1, u / max(1, w - 1))),
    ),
    (
        "The rate ends at √k times the own one, which is the square-root rule. Here it"
        " is the linear one: k times.",
        lambda k, w, u: up(math.sqrt(k), until(w, u)),
    ),
    (_JUMP, lambda k, w, u: k if u >= w else 1),
    (_JUMP, lambda k, w, u: k if u > w else 1),
    (_JUMP, lambda k, w, u: 1 + (k - 1) * (u // w)),
    (_JUMP, lambda k, w, u: k if u >= w else 0),
    (_TO_OWN, lambda k, w, u: k if u >= w else u / w),
    (_TO_OWN, lambda k, w, u: k if u >= w else (u + 1) / w),
    (
        "For a while the rate does not move: max(1, k · share) cuts the foot off a"
        " ramp from 0. Let it start at 1: 1 + (k - 1) · share.",
        lambda k, w, u: max(1, k * until(w, u)),
    ),
    (
        "The factor is a rate itself, and LambdaLR multiplies it by the own rate once"
        " more. The function returns how many times the own rate: 1 to k.",
        lambda k, w, u: OWN[0] * up(k, until(w, u)),
    ),
    (
        "The rate is multiplied by k before the ramp starts, and the ramp does it"
        " again. Once is enough.",
        lambda k, w, u: k * up(k, until(w, u)),
    ),
    (
        "This falls from k times the rate to the own one: the ramp is the wrong way"
        " round.",
        lambda k, w, u: up(k, 1 - until(w, u)),
    ),
    (
        "The rate is divided by k in the end. A larger batch has less noise and bears"
        " a larger rate: multiply.",
        lambda k, w, u: up(1 / k, until(w, u)),
    ),
    (
        "Each update multiplies the rate by the same number, k ** (1 / warmup_steps):"
        " this is exponential. Add the same number instead.",
        lambda k, w, u: k ** until(w, u),
    ),
    (_BEYOND, lambda k, w, u: 1 + k * until(w, u)),
    (_BEYOND, lambda k, w, u: 1 + k * u / w if u < w else k),
    (_ADDED, lambda k, w, u: 1 + k / OWN[0] * until(w, u)),
    (_ADDED, lambda k, w, u: 1 + (k - 1) / OWN[0] * until(w, u)),
    (_COMPOUND, lambda k, w, u: math.prod(up(k, until(w, i + 1)) for i in range(u))),
    (_COMPOUND, lambda k, w, u: math.prod(up(k, until(w, i)) for i in range(u))),
    (
        _COMPOUND,
        lambda k, w, u: math.prod(up(k, (i + 1) / w) for i in range(min(u, w))),
    ),
    (_COMPOUND, lambda k, w, u: up(k, 1 / w) ** min(u, w)),
    (_COMPOUND, lambda k, w, u: up(k, 1 / w) ** u),
    (_COMPOUND, lambda k, w, u: k**u),
    (_COMPOUND, lambda k, w, u: k ** min(u, w)),
    (_STAIRS, lambda k, w, u: int(up(k, until(w, u)))),
    (_STAIRS, lambda k, w, u: round(up(k, until(w, u)))),
    (_STAIRS, lambda k, w, u: math.ceil(up(k, until(w, u)))),
    (_STAIRS, lambda k, w, u: max(1, int(k * until(w, u)))),
)
