"""Exercise 6.4, decided: the batch size that costs least.

Some rows of the table have one batch size only. There nothing is chosen, and what is
returned shows how a cost is computed; the other rows show how one is chosen.
"""

import math
import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.judge.e6_2 import pairs_of, refuse_changed
from course_lib.exercises.observe.e6_4 import observe
from course_lib.text import listed

_TOLERANCE = 1e-3  # a share of the cost: room for cents


class Order(NamedTuple):
    """What `cheapest` is asked: batch sizes with their steps, and prices."""

    steps: dict
    images_per_gpu: int
    step_seconds: float
    gpu_hour: float
    waiting_day: float

    def hours(self, size) -> float:
        """The hours that a training takes."""
        return self.steps[size] * self.step_seconds / 3600

    def gpus(self, size) -> int:
        """The GPUs that a batch needs."""
        return math.ceil(size / self.images_per_gpu)

    def parts(self, size) -> tuple[float, float]:
        """The cost of all GPUs, and that of waiting."""
        hours = self.hours(size)
        return hours * self.gpus(size) * self.gpu_hour, hours * self.waiting_day / 24

    def cost(self, size) -> float:
        """The whole cost of a training."""
        return sum(self.parts(size))

    def cheapest(self) -> int:
        """The batch size of the lowest cost."""
        return min(self.steps, key=self.cost)


# one batch size each: GPUs that are filled to two thirds, hardly, exactly, by a quarter
_SINGLE = (
    Order({512: 9400}, 48, 14.5, 2.4, 400),
    Order({200: 2600}, 96, 1.1, 1.7, 96),
    Order({768: 4150}, 256, 2.6, 3.1, 0),
    Order({24: 5200}, 96, 9, 1.7, 230),
)
# not in order; the third one rises, falls and rises again where a GPU is added
_SEVERAL = (
    Order(
        {256: 14300, 512: 9400, 64: 42800, 128: 23800, 4096: 5950}
        | {2048: 5880, 1024: 7120},
        *(48, 14.5, 2.4, 400),
    ),
    Order(
        {2048: 10800, 256: 31500, 64: 98000, 1024: 13600, 512: 19500}
        | {128: 54500, 4096: 9350},
        *(256, 2.6, 3.1, 0),
    ),
    Order(
        {48: 34500, 96: 16800, 120: 14100, 192: 9300, 240: 7800, 384: 5900}
        | {768: 4150, 1536: 3250},
        *(96, 9, 1.7, 96),
    ),
)


def cases(seed: int) -> Iterator[Case]:
    """All orders at once; the second and the third wait for nothing."""
    numbers = random.Random(seed)
    orders = (*_SINGLE, *_SEVERAL)
    if seed:
        orders = [*_drawn_single(numbers), *_drawn_several(numbers)]
    yield Case({"table": [tuple(order) for order in orders]}, expected=orders)


def _drawn_single(numbers):
    for filled in (0.25, 1.0, 2.3, 3.7):
        images = 20 * numbers.randint(2, 10)
        steps = {int(images * filled): numbers.randint(5001, 5999)}
        order = Order(steps, *_prices(numbers, images))
        # a cheap one, where rounding shows
        cheap = order._replace(step_seconds=2.6, waiting_day=0)
        yield cheap if filled == 1 else order


def _prices(numbers, images_per_gpu):
    """All of an order but the steps."""
    seconds = numbers.choice((2.6, 7.5, 9, 14.5))
    price = numbers.choice((1.7, 2.4, 3.1, 4.2))
    return images_per_gpu, seconds, price, numbers.randint(60, 500)


def _drawn_several(numbers):
    orders = []
    while len(orders) < 3:
        images = 20 * numbers.randint(2, 10)
        filled = [0.5, 1.0, 1.25, 2.0, 2.5, 4.0, 8.0, 16.0]
        numbers.shuffle(filled)
        least, knee = numbers.randint(900, 9000), images * numbers.uniform(1, 9)
        steps = {int(part * images): 0 for part in filled}
        steps = {size: round(least * (1 + knee / size)) for size in steps}
        order = Order(steps, *_prices(numbers, images))
        if order.cheapest() not in _other_choices(order):
            orders.append(order)
    return orders


def _other_choices(order):
    """Batch sizes that are chosen for another reason than their cost."""
    sizes, steps = list(order.steps), order.steps
    yield from (sizes[0], sizes[-1], min(sizes), min(sizes, key=steps.get))
    yield min(sizes, key=lambda size: order.parts(size)[0])
    for ordered in (sizes, sorted(sizes)):
        pairs = zip(ordered, ordered[1:])
        yield next((b for b, a in pairs if order.cost(a) > order.cost(b)), ordered[-1])


def judge(case: Case, seen) -> str:
    """Compare batch size and cost, first where there is no choice."""
    [rank] = seen
    rows = list(zip(case.expected, rank["answers"]))
    pairs = pairs_of(
        rank["answers"],
        [f"{_where(order)}: cheapest" for order, _ in rows],
        "Return two numbers: the batch size and its cost.",
    )
    rows = [(order, *pair) for (order, _), pair in zip(rows, pairs)]
    _refuse_other_sizes(rows)
    _refuse_other_costs(rows)
    _refuse_other_choices(rows)
    refuse_changed(rank["answers"], "Whoever calls cheapest still needs `steps`")
    several = [one.cheapest() for one in case.expected if len(one.steps) > 1]
    return f"batch sizes {listed(several)}, and what each one costs"


def _where(order):
    names = order._asdict()
    if len(order.steps) > 1:
        del names["steps"]
    return "with " + ", ".join(f"{name}={value}" for name, value in names.items())


def _expected(order):
    best = order.cheapest()
    return f"expected {best} and {order.cost(best):.2f}"


def _said(number):
    return f"{number:.2f}" if 1 <= abs(number) < 1e9 else f"{number:.3g}"


def _refuse_other_sizes(rows):
    for order, size, cost in rows:
        if size not in order.steps:
            raise Wrong(
                f"{_where(order)}: cheapest returned {size:g} and {_said(cost)},"
                f" {_expected(order)}",
                "The first of the pair must be one of the keys of `steps`.",
                clue={"first": dict(enumerate(size for _, size, _ in rows))},
                also=[cost for _, _, cost in rows],
            )


def _is_near(found, expected):
    return abs(found - expected) <= _TOLERANCE * abs(expected)


def _refuse_other_costs(rows):
    single = [row for row in rows if len(row[0].steps) == 1]
    for order, size, cost in single:
        if not _is_near(cost, order.cost(size)):
            ratios = [cost / order.cost(size) for order, size, cost in single]
            raise Wrong(
                f"{_where(order)}: cheapest returned {size:g} and a cost of"
                f" {_said(cost)}, {_expected(order)}",
                _why_cost(single, order, cost),
                clue={"ratios": dict(enumerate(ratios))},
                also={"sizes": [size for _, size, _ in rows]},
            )


def _why_cost(single, order, cost):
    """The hint for a cost: how often each part of it counts, or another quantity."""
    parts = np.array([order.parts(size) for order, size, _ in single])
    found = np.array([cost for _, _, cost in single])
    # relative to the right cost, so that a cheap training counts as much
    whole = parts.sum(1)
    factors, *_ = np.linalg.lstsq(parts / whole[:, None], found / whole, rcond=None)
    rest = np.abs(parts @ factors - found) / whole
    if len(single) > 2 and rest.max() < _TOLERANCE:
        gpus, waiting = factors
        return (
            f"Of all costs the part of the GPUs is {gpus:.4g} times what it must be,"
            f" the part of your waiting {waiting:.4g} times. A part is an hourly price,"
            " times the hours of the training."
        )
    if np.abs(found - whole).max() <= 1:
        return "The cost is rounded. Return it as it is: it is compared to 0.1 %."
    return _why_other_cost(order, cost)


def _why_other_cost(order, cost):
    """The hint for a cost: what it would be the right cost of."""
    [size] = order.steps
    hours, gpus, (paid, waited) = order.hours(size), order.gpus(size), order.parts(size)
    readings = [
        ((cost - waited) / paid * gpus, "{} GPUs"),
        (cost / (paid + waited) * hours, "{} hours"),
        ((cost - waited) / paid * hours, "GPUs that are paid for {} hours"),
    ]
    if waited:
        days = (cost - paid) / waited * hours / 24
        readings.append((days, "{} days of waiting"))
    readings = [row for row in readings if row[0] >= 0] or readings
    # a whole number is hardly chance
    whole = [row for row in readings if abs(row[0] - round(row[0])) < 1e-4]
    said = [text.format(f"{number:.4g}") for number, text in whole or readings]
    return (
        f"With all else right, this is the cost of {', or of '.join(said)}. It takes"
        f" {gpus} GPUs, and {hours:.4g} hours, which are {hours / 24:.4g} days."
    )


def _refuse_other_choices(rows):
    for order, size, cost in rows:
        best = order.cheapest()
        if size == best and _is_near(cost, order.cost(best)):
            continue
        if _is_near(cost, order.cost(size)):
            of, hint = "its own", _why_choice(rows)
        elif _is_near(cost, order.cost(best)):
            of = "the lowest"
            hint = (
                "This is the lowest cost, but of another batch size. Return the two of"
                " one."
            )
        else:
            of = "another"
            hint = (
                "With one batch size alone the cost is right. Among several it must be"
                f" that of the one which is returned: {_said(order.cost(size))} here."
            )
        raise Wrong(
            f"{_where(order)}: cheapest returned {size:g} and a cost of {_said(cost)},"
            f" {_expected(order)}",
            hint,
            clue={"sizes": dict(enumerate(size for _, size, _ in rows)), "cost": of},
            also={"costs": [cost / order.cost(size) for order, size, cost in rows]},
        )


# what a batch size may have the lowest or highest value of
_QUANTITIES = {
    "batch size": lambda order, size: size,
    "number of steps": lambda order, size: order.steps[size],
    "number of images": lambda order, size: order.steps[size] * size,
    "price of an hour": lambda order, size: order.cost(size) / order.hours(size),
    "cost": Order.cost,
    "cost of the GPUs": lambda order, size: order.parts(size)[0],
}


def _why_choice(rows):
    """The hint for batch sizes: what all that were chosen have the least of."""
    for name, of in _QUANTITIES.items():
        for word, pick in (("lowest", min), ("highest", max)):
            if all(
                of(order, size) == pick(of(order, other) for other in order.steps)
                for order, size, _ in rows
            ):
                return (
                    f"Each time you choose the {word} {name}. Choose by the whole cost,"
                    " of GPUs and waiting together, and the lowest."
                )
    return "The cost of this batch size is right, but another one costs less."


EXERCISE = Exercise("6.4", observe, cases, judge)
