"""Exercise 9.4: the training in one process, which never stops, and known mistakes."""

import copy
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises.e9_4.network import network

_RATE = 0.001
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class PausedTraining:
    """A training between two steps: all that the next ones depend on."""

    weights: dict
    optimizer: dict

    def trained(self, batches) -> "PausedTraining":
        """Return what one process has after a step with each whole batch."""
        model, optimizer = _new(0)
        model.load_state_dict(self.weights)
        optimizer.load_state_dict(copy.deepcopy(self.optimizer))  # it is written into
        for images, labels in batches:
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()
        return PausedTraining(model.state_dict(), optimizer.state_dict())

    def counted(self, steps: int) -> "PausedTraining":
        """Return the same with another count of AdamW's steps.

        One that has taken no step has no state, and gets moments of 0.
        """
        optimizer = copy.deepcopy(self.optimizer)
        for number, weight in enumerate(network(0).parameters()):
            moments = {name: torch.zeros_like(weight) for name in _MOMENTS}
            state = optimizer["state"].setdefault(number, moments)
            state["step"] = torch.tensor(float(steps))
        return PausedTraining(self.weights, optimizer)


def before_steps(seed: int) -> PausedTraining:
    """Return a training before its first step."""
    model, optimizer = _new(seed)
    return PausedTraining(model.state_dict(), optimizer.state_dict())


def _new(seed):
    model = network(seed)
    return model, torch.optim.AdamW(model.parameters(), lr=_RATE)


def mistakes(first: PausedTraining, before: PausedTraining | None, batches) -> dict:
    """Return the weights that known mistakes lead to, by the names of their hints.

    `before` is where the calls before have left the training; None in the first call.
    """
    if before is None:
        ahead = first.counted(1).trained(batches)
        return {"untrained": first.weights, "step ahead": ahead.weights}
    starts = {
        "never read": first,
        "no state": PausedTraining(before.weights, first.optimizer),
        "no weights": PausedTraining(first.weights, before.optimizer),
        "no count": before.counted(0),
    }
    found = {name: start.trained(batches).weights for name, start in starts.items()}
    return found | {"untrained": before.weights}
