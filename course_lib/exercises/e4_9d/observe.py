"""Exercises 4.9d and 4.9e, in a rank: a DDP that sends while backward goes on."""

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import gradients_of, group, state_of
from course_lib.exercises.e4_9d.network import network
from course_lib.exercises.e4_9d.watch import PassWatch
from course_lib.exercises.values import plain


class _Trouble(Exception):
    """What the observer raises within no_sync."""


def observe(rank, world_size, answer, given):
    """Return the state after `answer(module, cap)`, and what each step did.

    `given` has the `width` of the network, the `seed` of rank 0, `cap`, `methods` that
    the answer has, and `steps`. In a step all `batches` but the last run under
    `no_sync`, and where there is `trouble`, one more does before, and then raises.
    """
    with group(rank, world_size) as device:
        module = network(given["width"], given["seed"] + rank).to(device)
        watch = PassWatch(module)
        model = answer(module, given["cap"])
        if not _is_model(model, given["methods"]):
            return {"returned": plain(model), "kept": True}
        kept = getattr(model, "module", None) is module
        seen = {"returned": None, "kept": kept, "start": plain(state_of(module))}
        if not kept:
            return seen
        training = _WatchedTraining(model, watch, rank=rank, device=device)
        return seen | {"steps": dict(enumerate(map(training.step, given["steps"])))}


def _is_model(model, methods):
    found = (getattr(model, name, None) for name in methods)
    return isinstance(model, torch.nn.Module) and all(map(callable, found))


class _WatchedTraining:
    """A training with an answer, on one rank."""

    def __init__(self, model, watch, *, rank, device):
        self.model, self.module, self.watch = model, model.module, watch
        self.rank, self.device = rank, device
        self.optimizer = baseline.optimizer(self.module)

    def step(self, step):
        """Take a step, and return what it did."""
        self.watch.clear()
        with self.watch:
            swallowed = step["trouble"] and self._trouble(step["batches"][-1])
            self._accumulate(step["batches"])
            self.model.finish()
        gradients = gradients_of(self.module)
        self.optimizer.step()
        return {
            "passes": dict(enumerate(self.watch.passes)),
            "sent": self.watch.sent,
            "open": self.watch.open,
            "touched": self.watch.touched,
            "swallowed": swallowed,
            "gradients": plain(gradients),
            "weights": plain(state_of(self.module)),
        }

    def _accumulate(self, batches):
        self.optimizer.zero_grad()
        for batch in batches[:-1]:
            with self.model.no_sync():
                self._pass(batch, len(batches))
        self._pass(batches[-1], len(batches))

    def _trouble(self, batch):
        """Let something raise within no_sync; return if nothing of it comes out."""
        self.optimizer.zero_grad()
        try:
            with self.model.no_sync():
                self._pass(batch, 1)
                raise _Trouble
        except _Trouble:
            return False
        return True

    def _pass(self, batch, parts):
        images, labels, branch = batch[self.rank]
        with self.watch.one_pass():
            output = self.model(images.to(self.device), branch)
            loss = cross_entropy(output, labels.to(self.device))
            (loss / parts).backward()
