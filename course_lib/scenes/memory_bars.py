"""What a training holds on each GPU, kind by kind, against what a GPU has."""

import itertools
import math
from typing import NamedTuple

from course_lib.accelerators.memory import KINDS
from course_lib.scenes import kind_bars
from course_lib.scenes.arguments import real_number, whole_numbers
from course_lib.scenes.items import Moment, label
from course_lib.scenes.scene import Scene, varied
from course_lib.text import many, size

_TOP = 58  # y of the first bar
_SOURCE = (
    "computed: Adam, numbers of 4 bytes, equal parts; without work space; DDP's buckets"
    " are a copy of the gradients; of a model in parts, one micro-batch is alive at a"
    " time"
)
_HOLDS = {False: "the whole model", True: "a part of the model"}


class Placement(NamedTuple):
    """How a training with Adam, in numbers of 4 bytes, lies on GPUs.

    Counts of parameters, in all and of the largest tensor, samples of a batch and of a
    micro-batch; `sample` is the bytes of activations that one leaves, `capacity` those
    of a GPU.
    """

    parameters: float
    largest: float
    sample: float
    batch: int
    capacity: float
    gpus: int
    holds: str
    microbatch: int
    shard: bool

    @property
    def parts(self) -> int:
        """Return into how many parts the model is cut, each on a GPU of its own."""
        return self.gpus if self.holds == _HOLDS[True] else 1

    @property
    def copies(self) -> int:
        """Return how many copies of the model there are, with their own samples."""
        return self.gpus // self.parts

    @property
    def at_once(self) -> int:
        """Return samples of a micro-batch, at most a copy's share of the batch."""
        return min(self.microbatch, math.ceil(self.batch / self.copies))

    @property
    def turns(self) -> int:
        """Return micro-batches of a copy in a step."""
        return math.ceil(self.batch / self.copies / self.at_once)

    @property
    def added(self) -> float:
        """Return bytes of the largest gradient while it is added to the one there."""
        share = self.parameters / self.parts
        return 4 * min(self.largest, share) if self.turns > 1 else 0

    @property
    def gradients(self) -> float:
        """Return bytes of gradients on a GPU, with their copies in DDP's buckets."""
        # so by default: with gradient_as_bucket_view=True they lie in the buckets alone
        kept = 4 * self.parameters / self.parts * (2 if self.copies > 1 else 1)
        return kept + self.added

    @property
    def held(self) -> dict:
        """Return bytes on a GPU by kind."""
        share = self.parameters / self.parts
        state = 8 * share / (self.copies if self.shard else 1)
        alive = self.at_once * self.sample / self.parts
        counts = 4 * share, self.gradients, state, alive
        return dict(zip(KINDS, counts))


def memory_bars(parameters, *, sample, batch, capacity, largest=1) -> Scene:
    """Draw the four kinds of memory on each GPU, in bars, against its capacity.

    A model of so many `parameters` learns with Adam: 4 bytes for each, 4 for its
    gradient, 8 for two means; ranks that share the batch have each gradient in a bucket
    of DDP, too. From the second micro-batch on, a new gradient lies beside the one to
    which it is added: that of the `largest` tensor, counted in numbers. A `sample`
    leaves so many bytes of activations, and one micro-batch is alive at a time, in a
    split model, too; `batch` is counted in samples, `capacity` in bytes of a GPU.
    Sliders say how many GPUs share the batch or the model evenly, how many samples go
    through it at once, and whether each rank keeps a part of the optimizer's state.

    Errors: `UsageError` for numbers that are less than 1, or that are absurd.
    """
    numbers = {"parameters": parameters, "sample": sample, "largest": largest}
    for name, value in numbers.items():
        real_number(name, value, least=1)
    whole_numbers("batch", [batch], most=10**18)  # one, no list
    real_number("capacity", capacity, least=1)
    switches: dict[str, list] = {
        "GPUs": [1, 2, 4],
        "each holds": list(_HOLDS.values()),
        "micro-batch": [max(1, batch // part) for part in (1, 4, 16, 64)],
        "shard optimizer": [False, True],
    }

    def placement(values):
        return Placement(parameters, largest, sample, batch, capacity, *values)

    plans = map(placement, itertools.product(*switches.values()))
    most = max(sum(plan.held.values()) for plan in plans)
    scale = kind_bars.WIDTH / max(most, capacity)
    return varied(
        lambda **values: _moments(placement(values.values()), scale),
        switches,
        height=_TOP + max(switches["GPUs"]) * kind_bars.ROW + 16,
        source=_SOURCE,
    )


# --- what is to be seen


def _moments(placement, scale):
    titles = _state(placement)
    for count, title in enumerate(titles, 1):
        yield Moment(title, _items(placement, scale, KINDS[:count]))


def _state(placement):
    """Yield a sentence for each kind, the last with what comes of it."""
    held, where = placement.held, "each GPU" if placement.gpus > 1 else "the GPU"
    yield f"Parameters, 4 bytes each: {size(held['parameters'])} on {where}."
    buckets = ", and DDP's buckets, as much again" if placement.copies > 1 else ""
    gradients = size(held["gradients"])
    new = ", and a new one before it is added" if placement.turns > 1 else ""
    yield f"Gradients, 4 bytes for each parameter{buckets}{new}: {gradients} more."
    shared = _sharing(placement)
    state = size(held["optimizer state"])
    yield f"Adam, 8 bytes for each parameter{shared}: {state}."
    total, room = sum(held.values()), size(placement.capacity)
    fits = "fit" if total <= placement.capacity else "do not fit"
    yield f"{_work(placement)}: {size(total)} {fits} into {room}."


def _sharing(placement):
    """Who shares the optimizer's state; or why nobody does where they should."""
    if not placement.shard:
        return ""
    if placement.copies > 1:
        return f", shared by {placement.copies} ranks"
    why = "a part is on one GPU only" if placement.parts > 1 else "there is one GPU"
    return f", not shared because {why}"


def _work(placement):
    """`4 ranks, 4 micro-batches of 256 samples each`."""
    count, turns = placement.at_once, placement.turns
    share = placement.batch / placement.copies
    about = "up to " if turns * count != share else ""
    kind = "micro-batch" if turns == 1 else "micro-batches"
    each = f"{turns:,} {kind} of {about}{many(count, 'sample')}"
    if placement.copies > 1:
        return f"{placement.copies} ranks, each with {each}"
    if placement.parts > 1:
        return f"{each}, one alive at a time" if turns > 1 else each
    whole = placement.holds == _HOLDS[True]
    return f"{each}, on one GPU nothing to split" if whole else each


def _items(placement, scale, kinds):
    yield from kind_bars.legend()
    held = {kind: placement.held[kind] for kind in kinds}
    room, whole = placement.capacity, sum(held.values())
    for gpu in range(placement.gpus):
        y = _TOP + gpu * kind_bars.ROW
        name = f"GPU {gpu}"
        if placement.parts > 1:
            name += f": {gpu + 1}/{placement.parts}"
        yield label(f"gpu {gpu}", (0, y + kind_bars.HIGH / 2), name)
        yield from kind_bars.bar(f"{gpu}", y, held, scale=scale, said=f"GPU {gpu}")
        yield kind_bars.total(f"{gpu}", y, whole, capacity=room, scale=scale)
    yield from kind_bars.limit(room, top=_TOP, rows=placement.gpus, scale=scale)
