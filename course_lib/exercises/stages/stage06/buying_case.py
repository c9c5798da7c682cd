"""What `cheapest` is asked, and the right answer."""

import math
from typing import NamedTuple

_TOLERANCE = 1e-3  # a share of the cost: room for cents


class Case(NamedTuple):
    """What `cheapest` is given."""

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

    def cost(self, size) -> float:
        """The whole cost of a training."""
        return self.priced(size, gpus=self.gpus(size))

    def priced(self, size, *, gpus=0.0, hours=1.0, waits=1.0) -> float:
        """The cost with so many GPUs, and other factors of the time or the waiting."""
        hourly = gpus * self.gpu_hour + waits * self.waiting_day / 24
        return self.hours(size) * hours * hourly

    def cheapest(self, cost=None) -> int:
        """The batch size of the lowest cost, or of what is taken for it."""
        return min(self.steps, key=cost or self.cost)

    def first_low(self, sizes) -> int:
        """The last batch size before the cost rises for the first time."""
        pairs = zip(sizes, sizes[1:])
        return next((b for b, a in pairs if self.cost(a) > self.cost(b)), sizes[-1])


def near(found: float | None, expected: float) -> bool:
    """True if a cost is there and right."""
    return found is not None and abs(found - expected) <= _TOLERANCE * abs(expected)
