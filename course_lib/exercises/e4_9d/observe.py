"""Exercises 4.9d and 4.9e, in a rank: a DDP that sends while backward goes on."""

import contextlib
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import gradients_of, group, is_model, numbers_of
from course_lib.exercises.e4_9d.network import network
from course_lib.exercises.e4_9d.watch import PassWatch
from course_lib.exercises.values import plain


class _Trouble(Exception):
    """What the observer raises within no_sync."""


class _Stop(BaseException):
    """The same, of a kind that no `except Exception` keeps, as Ctrl-C is."""


def observe(rank, world_size, answer, given):
    """Return the state after `answer(module, cap)`, and what each step did.

    `given` has the `width` of the network, the `seed` of rank 0, `cap`, `methods` that
    the answer has, `set_to_none` of zero_grad, and `steps`. In a step all `batches`
    but the last run under `no_sync`. If `nested`, one does in a block within that of
    the others, and the last one under that of another model. Where there is
    `trouble`, two more do before, and then raise.
    """
    with group(rank, world_size) as device:
        module = network(given["width"], given["seed"] + rank).to(device)
        watch = PassWatch(module)
        model = answer(module, given["cap"])
        if not is_model(model, given["methods"]):
            return {"returned": plain(model), "kept": True}
        kept = getattr(model, "module", None) is module
        seen = {"returned": None, "kept": kept, "start": numbers_of(module)}
        if not kept:
            return seen
        training = _WatchedTraining(model, watch, given, rank=rank, device=device)
        if "no_sync" in given["methods"]:
            training.other = answer(torch.nn.Linear(3, 2).to(device), given["cap"])
        return seen | {"steps": dict(enumerate(map(training.step, given["steps"])))}


class _WatchedTraining:
    """A training with an answer, on one rank."""

    def __init__(self, model, watch, given, *, rank, device):
        self.model, self.module, self.watch = model, model.module, watch
        self.rank, self.device = rank, device
        self.other: Any = None
        self.set_to_none = given["set_to_none"]
        self.optimizer = baseline.optimizer(self.module)

    def step(self, step):
        """Take a step, and return what it did."""
        self.watch.clear()
        with self.watch:
            swallowed = step["trouble"] and self._trouble(step["batches"][-1])
            self._accumulate(step["batches"], nested=step["nested"])
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
            "weights": numbers_of(self.module),
        }

    def _accumulate(self, batches, *, nested):
        self.optimizer.zero_grad(self.set_to_none)
        with self.model.no_sync() if nested else contextlib.nullcontext():
            for batch in batches[:-1]:
                if nested and batch is not batches[0]:
                    self._pass(batch, len(batches))
                    continue
                with self.model.no_sync():
                    self._pass(batch, len(batches))
        with self.other.no_sync() if nested else contextlib.nullcontext():
            self._pass(batches[-1], len(batches))

    def _trouble(self, batch):
        """Let something raise within no_sync; return if nothing of it comes out."""
        swallowed = [self._swallows(error, batch) for error in (_Trouble, _Stop)]
        return True in swallowed

    def _swallows(self, error, batch):
        self.optimizer.zero_grad()
        try:
            with self.model.no_sync():
                self._pass(batch, 1)
                raise error
        except error:
            return False
        return True

    def _pass(self, batch, parts):
        images, labels, branch = batch[self.rank]
        with self.watch.one_pass():
            output = self.model(images.to(self.device), branch)
            loss = cross_entropy(output, labels.to(self.device))
            (loss / parts).backward()
