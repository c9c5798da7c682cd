"""Exercise 9.2, in a rank: steps of an optimizer that is an answer, and their costs."""

import time

from torch import nn

from course_lib.exercises.compare import group
from course_lib.exercises.counted_work import everywhere
from course_lib.exercises.e9_2.costs import StepCosts
from course_lib.exercises.values import plain

_WAIT = 2.0  # seconds


def observe(rank, world_size, answer, given):
    """Return for each step the weights after it and the bytes sent, then those kept.

    `given` has `weights`, those that are `frozen` by their places, the arguments `lr`
    and `max_norm`, and for each step the gradients of all ranks, None for a frozen one.
    The parameters come as a generator if it is to be a `generator`. At `most` so many
    bytes may be kept.
    """
    with group(rank, world_size, gpus=False):
        weights = [
            nn.Parameter(weight.clone(), requires_grad=place not in given["frozen"])
            for place, weight in enumerate(given["weights"])
        ]
        handed = (p for p in weights) if given["generator"] else list(weights)
        costs = StepCosts(world_size)
        with everywhere(costs):
            optimizer = answer(handed, given["lr"], given["max_norm"])
        if not callable(getattr(optimizer, "step", None)):
            return {"returned": plain(optimizer)}
        steps = {}
        for number, shares in enumerate(given["steps"]):
            with everywhere(costs):
                _step(optimizer, weights, shares[rank])
            after = {str(place): p for place, p in enumerate(weights)}
            steps[number] = {"weights": plain(after), "sent": costs.take_sent()}
            if not all(map(_fits, weights, given["weights"])):
                break  # no gradient belongs to such a weight
        return {"steps": steps, "held": _held(costs, weights, given["most"])}


def _step(optimizer, weights, gradients):
    """One step with these gradients, which nothing here keeps."""
    for p, gradient in zip(weights, gradients):
        p.grad = None if gradient is None else gradient.clone()
    optimizer.step()


def _fits(weight, given):
    return weight.shape == given.shape and weight.dtype == given.dtype


def _held(costs, weights, most):
    """The bytes that are kept, once threads of gloo have let go of what they sent."""
    late = time.monotonic() + _WAIT
    while (held := costs.held(weights)) > most and time.monotonic() < late:
        time.sleep(0.01)
    return held
