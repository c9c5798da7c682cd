"""What goes wrong with the price of a training, and the hints for it."""

import math
from collections.abc import Sequence

from course_lib.exercises.stages.stage06.buying_case import Case, near

_ROUND_UP = (
    "Whole GPUs only: a batch that needs 2.7 of them needs 3. Round up, math.ceil."
)
_UNIT = "step_seconds are seconds, and gpu_hour is a price for an hour of 3600 of them."
_DAY = "waiting_day is the price of a day of 24 hours: divide it by 24."
_NO_TIME = "A price per hour must be multiplied by hours, that of waiting as well."
_PER_SAMPLE = (
    "`steps` counts optimizer steps, not images: a step of a larger batch takes as long"
    " as one of a small batch, on more GPUs."
)
_FASTER = (
    "The GPUs share the batch, so more of them do not shorten a step: it takes"
    " step_seconds, however many they are."
)
_WHOLE_HOURS = "The time is rounded to whole hours or days. Count parts of them, too."
_DOWN = (
    "The number of GPUs is rounded down, as by `//`: the last images of the batch"
    " have no GPU then."
)
_NEAREST = (
    "round() goes down, too, if the next whole number is nearer. Here it is always up."
)
_RISE = (
    "You stop where the cost rises for the first time. With one more GPU it may"
    " rise, and fall again where that GPU is full: compare all sizes."
)
# hints, and the cost of a batch size that makes the mistake
COSTS = (
    (_ROUND_UP, lambda c, b: c.priced(b, gpus=b / c.images_per_gpu)),
    (
        _DOWN,
        lambda c, b: c.priced(b, gpus=b // c.images_per_gpu),
    ),
    (
        _DOWN,
        lambda c, b: c.priced(b, gpus=max(1, b // c.images_per_gpu)),
    ),
    (
        _NEAREST,
        lambda c, b: c.priced(b, gpus=round(b / c.images_per_gpu)),
    ),
    (
        _NEAREST,
        lambda c, b: c.priced(b, gpus=max(1, round(b / c.images_per_gpu))),
    ),
    (
        "`// … + 1` is one GPU too many where the batch fills its GPUs exactly.",
        lambda c, b: c.priced(b, gpus=b // c.images_per_gpu + 1),
    ),
    (
        "This counts one GPU for each image. A GPU takes images_per_gpu at once.",
        lambda c, b: c.priced(b, gpus=b),
    ),
    (
        "This is the cost of one GPU, however large the batch. It needs B /"
        " images_per_gpu of them, and gpu_hour is the price of each.",
        lambda c, b: c.priced(b, gpus=1),
    ),
    ("The GPUs are not paid.", lambda c, b: c.priced(b)),
    (
        "Your waiting is not paid: it costs waiting_day / 24 an hour.",
        lambda c, b: c.priced(b, gpus=c.gpus(b), waits=0),
    ),
    (
        "You wait once, not once for each GPU: multiply only the price of the GPUs by"
        " their number.",
        lambda c, b: c.priced(b, gpus=c.gpus(b), waits=c.gpus(b)),
    ),
    (_DAY, lambda c, b: c.priced(b, gpus=c.gpus(b), waits=24)),
    (_DAY, lambda c, b: c.priced(b, gpus=c.gpus(b), waits=24 * 24)),
    (_DAY, lambda c, b: c.priced(b, gpus=c.gpus(b), waits=3)),
    (
        "The waiting is counted in other hours than the GPUs: both last as long as the"
        " training, steps × step_seconds / 3600 hours.",
        lambda c, b: c.priced(b, gpus=c.gpus(b), waits=3600),
    ),
    (_UNIT, lambda c, b: c.priced(b, gpus=c.gpus(b), hours=3600)),
    (_UNIT, lambda c, b: c.priced(b, gpus=c.gpus(b), hours=60)),
    (_UNIT, lambda c, b: c.priced(b, gpus=c.gpus(b), hours=1 / 24)),
    (_UNIT, lambda c, b: c.priced(b, gpus=c.gpus(b), hours=1 / 1000)),
    (_UNIT, lambda c, b: c.priced(b, gpus=60 * c.gpus(b))),
    (_UNIT, lambda c, b: c.priced(b, gpus=3600 * c.gpus(b))),
    (
        _UNIT,
        lambda c, b: c.priced(b, gpus=c.gpus(b) / 24),
    ),
    (
        _NO_TIME,
        lambda c, b: c.priced(b, gpus=c.gpus(b), waits=0) + c.waiting_day,
    ),
    (
        _NO_TIME,
        lambda c, b: c.priced(b, gpus=c.gpus(b), waits=0) + c.waiting_day / 24,
    ),
    (_NO_TIME, lambda c, b: c.priced(b) + c.gpus(b) * c.gpu_hour),
    (_NO_TIME, lambda c, b: c.gpus(b) * c.gpu_hour + c.waiting_day / 24),
    (_PER_SAMPLE, lambda c, b: b * c.cost(b)),
    (
        "This is the cost of one step. The training needs steps[size] of them.",
        lambda c, b: c.cost(b) / c.steps[b],
    ),
    (
        "step_seconds is missing: steps are no seconds.",
        lambda c, b: c.cost(b) / c.step_seconds,
    ),
    (_FASTER, lambda c, b: c.cost(b) / c.gpus(b)),
    (_FASTER, lambda c, b: c.cost(b) * c.images_per_gpu / b),
    (
        "This is the cost of one image. Return that of the whole training.",
        lambda c, b: c.cost(b) / c.steps[b] / b,
    ),
    (_WHOLE_HOURS, lambda c, b: c.cost(b) / c.hours(b) * math.ceil(c.hours(b))),
    (_WHOLE_HOURS, lambda c, b: c.cost(b) / c.hours(b) * int(c.hours(b))),
    (_WHOLE_HOURS, lambda c, b: c.cost(b) / c.hours(b) * round(c.hours(b))),
    (
        _WHOLE_HOURS,
        lambda c, b: (
            c.priced(b, gpus=c.gpus(b), waits=0)
            + math.ceil(c.hours(b) / 24) * c.waiting_day
        ),
    ),
    (
        _WHOLE_HOURS,
        lambda c, b: (
            c.priced(b, gpus=c.gpus(b), waits=0) + c.hours(b) // 24 * c.waiting_day
        ),
    ),
)
# hints, and the batch size that is chosen, with a right cost
CHOICES = (
    (
        "This is the dearest of all: max in place of min?",
        lambda c: c.cheapest(lambda b: -c.cost(b)),
    ),
    (
        "This batch size has the fewest steps, so it saves the most time. The GPUs for"
        " it cost more than that time is worth.",
        lambda c: c.cheapest(c.steps.get),
    ),
    (
        "This is the smallest batch size, as from min() of the dict itself: its key is"
        " the cost.",
        lambda c: min(c.steps),
    ),
    (
        "You chose by the cost of the GPUs alone. Choose by the whole cost, waiting"
        " included.",
        lambda c: c.cheapest(lambda b: c.priced(b, gpus=c.gpus(b), waits=0)),
    ),
    (
        "This batch size is the first of `steps`, whatever it costs. Compare them all.",
        lambda c: next(iter(c.steps)),
    ),
    (
        "This batch size is the last of `steps`, whatever it costs. Keep the cheapest"
        " one seen so far.",
        lambda c: list(c.steps)[-1],
    ),
    (
        _RISE,
        lambda c: c.first_low(list(c.steps)),
    ),
    (
        _RISE,
        lambda c: c.first_low(sorted(c.steps)),
    ),
)
# hints, and what is returned for the cost of the right batch size
PARTS = (
    ("These are its hours. Return its cost.", lambda c, b: c.hours(b)),
    (
        "These are its GPU hours. Return its cost.",
        lambda c, b: c.hours(b) * c.gpus(b),
    ),
    ("This is its number of steps. Return its cost.", lambda c, b: c.steps[b]),
    ("This is its number of GPUs. Return its cost.", lambda c, b: c.gpus(b)),
    (
        "You chose by the whole cost, but return the part of the GPUs. Waiting belongs"
        " to it.",
        lambda c, b: c.priced(b, gpus=c.gpus(b), waits=0),
    ),
    (
        "You chose by the whole cost, but return the part of your waiting. The GPUs"
        " belong to it.",
        lambda c, b: c.priced(b),
    ),
)


def why_cost(case: Case, pair: tuple, earlier: Sequence) -> str:
    """The hint for a pair, wrong, of a batch size of `steps` and a cost.

    What is wrong in one of the `earlier` cases, which went well, is not the mistake.
    """
    size, found = pair
    best = case.cheapest()
    costs = [one for one in COSTS if all(_right(one[1], c) for c in earlier)]
    for hint, cost in costs:
        chosen = case.cheapest(lambda b, cost=cost: cost(case, b))
        if size == chosen and near(found, cost(case, size)):
            return hint
    if size != best and near(found, case.cost(size)):
        return _why_choice(case, size, earlier)
    # chosen in another way than by the cost that is returned
    for hint, cost in [*PARTS, *costs] if size == best else costs:
        if near(found, cost(case, size)):
            return hint
    if size == best and abs(found - case.cost(size)) <= 1:
        return "The cost is rounded. Return it as it is: it is compared to 0.1 %."
    if size != best and near(found, case.cost(best)):
        return (
            "This is the lowest cost, but of another batch size. Return the two of one."
        )
    return (
        "For each batch size: the hours of the training, times what an hour costs, of"
        " all GPUs and of your waiting together."
    )


def _right(cost, case):
    """True if a mistake does not show in the cost of a case."""
    best = case.cheapest()
    return near(cost(case, best), case.cost(best))


def _why_choice(case, size, earlier):
    for hint, choice in CHOICES:
        if size == choice(case) and all(choice(c) == c.cheapest() for c in earlier):
            return hint
    return "The cost of this batch size is right, but another one costs less."
