"""Exercise 6.4, decided: the batch size that costs least.

Some rows of the table have one batch size only. There nothing is chosen, and what is
returned shows how a cost is computed; the other rows show how one is chosen.
"""

import math
import random
from collections.abc import Iterator
from typing import NamedTuple

from course_lib.exercises.compare import near
from course_lib.exercises.e6_2.judge import pairs_of, refuse_changed
from course_lib.exercises.e6_2.observe import observe as observe
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.text import listed

_TEXTS = Texts("6.4")
_TOLERANCE = 1e-3  # a share of the cost: room for cents


class Order(NamedTuple):
    """What `cheapest` is asked: batch sizes with their steps, and prices."""

    steps: dict
    images_per_gpu: int
    step_seconds: float
    gpu_hour: float
    waiting_day: float

    def hours(self, size) -> float:
        """Return the hours that a training takes."""
        return self.steps[size] * self.step_seconds / 3600

    def gpus(self, size) -> int:
        """Return the GPUs that a batch needs."""
        return math.ceil(size / self.images_per_gpu)

    def parts(self, size) -> tuple[float, float]:
        """Return the cost of all GPUs, and that of waiting."""
        hours = self.hours(size)
        return hours * self.gpus(size) * self.gpu_hour, hours * self.waiting_day / 24

    def cost(self, size) -> float:
        """Return the whole cost of a training."""
        return sum(self.parts(size))

    def cheapest(self) -> int:
        """Return the batch size of the lowest cost."""
        return min(self.steps, key=self.cost)


_ORDERS = (
    # first one batch size each: GPUs filled to two thirds, hardly, exactly, a quarter
    Order({512: 9400}, 48, 14.5, 2.4, 400),
    Order({200: 2600}, 96, 1.1, 1.7, 96),
    Order({768: 4150}, 256, 2.6, 3.1, 0),
    Order({24: 5200}, 96, 9, 1.7, 230),
    # not in order; the third one rises, falls and rises again where a GPU is added
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
    """Yield all orders at once; another seed has other sizes and prices."""
    numbers, orders = random.Random(seed), []
    for steps, images, seconds, hour, day in _ORDERS:
        by = numbers.randint(2, 9) if seed else 1
        price = numbers.choice((1.5, 2, 2.5)) if seed else 1
        steps = {size * by: count for size, count in steps.items()}
        prices = round(hour * price, 2), day * price
        orders.append(Order(steps, images * by, seconds, *prices))
    yield Case({"table": [tuple(order) for order in orders]}, expected=orders)


def judge(case: Case, seen) -> str:
    """Compare batch size and cost, first where there is no choice."""
    [rank] = seen
    answers, orders = rank["answers"], case.expected
    asked = [f"{_where(order)}: cheapest" for order in orders]
    pairs = pairs_of(answers, asked, _TEXTS.hint("pair"))
    rows = [(order, *pair) for order, pair in zip(orders, pairs)]
    sizes = [size for _, size, _ in rows]
    for row in rows:
        if row[1] not in row[0].steps:
            clue, also = {"first": dict(enumerate(sizes))}, [cost for *_, cost in rows]
            raise _wrong("no size", row, clue=clue, also=also)
    _refuse_others(rows, sizes)
    refuse_changed(answers, "Whoever calls cheapest still needs `steps`")
    several = [order.cheapest() for order in orders if len(order.steps) > 1]
    return f"batch sizes {listed(several)}, and what each one costs"


def _where(order):
    names = order._asdict()
    if len(order.steps) > 1:
        del names["steps"]
    return "with " + ", ".join(f"{name}={value}" for name, value in names.items())


def _ratios(rows):
    return [cost / order.cost(size) for order, size, cost in rows]


def _wrong(found, row, **fill):
    order, size, cost = row
    best = order.cheapest()
    hours, (paid, waited) = order.hours(best), order.parts(best)
    fill |= {"where": _where(order), "size": size, "cost": cost, "best": best}
    fill |= {"lowest": order.cost(best), "paid": paid, "waited": waited}
    fill |= {"gpus": order.gpus(best), "hours": hours, "days": hours / 24}
    # hours of which this would be the right cost
    fill["all_hours"] = hours * cost / (paid + waited)
    fill["gpu_hours"] = hours * (cost - waited) / paid
    return _TEXTS.wrong(found, **fill)


def _refuse_others(rows, sizes):
    """Refuse another cost where there is one batch size, then whatever else differs."""
    alone = [row for row in rows if len(row[0].steps) == 1]
    for row in rows:  # those with one batch size come first
        order, size, cost = row
        own = order.cost(size)
        is_own = near(cost, own, _TOLERANCE * own)
        if is_own and size == order.cheapest():
            continue
        if row in alone:
            ratios = {"ratios": dict(enumerate(_ratios(alone)))}
            also = {"sizes": sizes}
            raise _wrong("cost", row, why="reading", clue=ratios, also=also)
        why = "its own" if is_own else "of another"
        clue = {"sizes": dict(enumerate(sizes)), "cost": why}
        also = {"costs": _ratios(rows)}
        raise _wrong("cost", row, why=why, clue=clue, also=also, own=own)
