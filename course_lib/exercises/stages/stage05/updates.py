"""The updates of several processes that train one model, and which of them arrived."""

import contextlib
import math
import mmap
import os
import sys

import numpy
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from course_lib.exercises import baseline
from course_lib.exercises.stages.stage05.company import MOST, Company
from course_lib.exercises.stages.stage05.watching import replace

BATCH = 32
LONGEST = 90  # steps of a process that are noted; with one more it ends
_HELD = 8  # of its first steps, in which a process waits for another
THREADS = 4  # that a process has if it does not say otherwise
_FIELDS = ("steps", "threads", "stale", "shared_grad", "shared_state")
_MORE = ("strange", "private")


class Updates:
    """What each process computes: samples, gradients, threads; shared by all of them.

    In its first steps a process is held between backward and step until another one is
    there, so that the steps of both begin from weights which lack the other's.
    """

    def __init__(self, company: Company, model: nn.Module, data):
        self.company = company
        self.last = [], float("nan")  # samples and loss of the last forward pass
        self.unlike = False  # True if the change is no sum of the gradients
        self.threads_now = THREADS  # that this process asked for
        size = max(p.numel() for p in model.parameters())
        self.labels = data[1]
        self.probe = torch.randint(1 << 40, (data[0][0].numel(),))
        self.known = {key: number for number, key in enumerate(self._keys(data[0]))}
        self.grads = _shared((MOST, LONGEST, size), numpy.float32)
        self.samples = _shared((MOST, LONGEST, BATCH), numpy.int64)
        self.samples[:] = -1
        self.sizes = _shared((MOST, LONGEST), numpy.int64)
        self.backwards = _shared((MOST,), numpy.int64)
        for name in (*_FIELDS, *_MORE):
            setattr(self, name, _shared((MOST,), numpy.int64))

    @contextlib.contextmanager
    def noted(self, answer):
        """Note forward passes, backward passes and steps in a block."""
        backward = torch.autograd.backward
        handles = [
            register_module_forward_hook(self._forward),
            register_optimizer_step_post_hook(self._stepped),
        ]

        def noting(tensors, *args, **kwargs):
            losses = [tensors] if torch.is_tensor(tensors) else [*tensors]
            leaves = _leaves(losses)
            self._before(leaves, losses)
            backward(tensors, *args, **kwargs)
            self._after([leaf.grad for leaf in leaves if leaf.grad is not None])

        # counted, not started: a pool of the parent's would not survive the fork
        put_back = replace(
            torch,
            get_num_threads=lambda: self.threads_now,
            set_num_threads=self._count_threads,
            answer=answer,
        )
        torch.autograd.backward = noting
        try:
            yield
        finally:
            put_back()
            torch.autograd.backward = backward
            for handle in handles:
                handle.remove()

    @property
    def trainers(self) -> list[int]:
        """Numbers of the processes that train, not of those that load for them."""
        forked = range(1, 1 + self.company.forks)
        return [n for n in forked if n in self.company.children or self.backwards[n]]

    def seen(self) -> dict:
        """All of it as plain data, of the processes that train."""
        numbers = self.trainers
        names = ("backwards", *_FIELDS, *_MORE)
        noted = {name: getattr(self, name)[numbers].tolist() for name in names}
        for name in ("samples", "sizes"):
            noted[name] = [
                getattr(self, name)[n, : self.backwards[n]].tolist() for n in numbers
            ]
        return noted | {"trained_here": int(self.backwards[0])}

    def arrived(self, before: torch.Tensor, after: torch.Tensor) -> list[float]:
        """How much of each update is in the weights: 1 all of it, 0 nothing.

        The change of the largest parameter is a sum of its gradients, each times a
        factor: solved for these. Empty without updates, or with weights that are nan.
        """
        numbers = self.trainers
        counts = [int(min(self.backwards[n], LONGEST)) for n in numbers]
        rows = [self.grads[n, :count] for n, count in zip(numbers, counts)]
        change = (before - after).double().flatten() / baseline.RATE
        if not sum(counts) or not change.isfinite().all():
            return []
        matrix = torch.tensor(numpy.concatenate(rows)).double().T
        solved = torch.linalg.lstsq(matrix, change[:, None], driver="gelsd").solution
        rest = change - matrix @ solved.flatten()
        self.unlike = bool(rest.norm() > 0.1 * change.norm())
        return solved.flatten().tolist()

    def _forward(self, module, inputs, output):
        if isinstance(module, nn.Sequential) and inputs and output.requires_grad:
            found = [self.known.get(key, -1) for key in self._keys(inputs[0])]
            loss = float("nan")
            if min(found) >= 0:
                labels = self.labels[torch.tensor(found)]
                loss = nn.functional.cross_entropy(output.detach(), labels).item()
            self.last = found, loss

    def _keys(self, images):
        """A number for each image; digits have 17 shades, so it is exact."""
        if images[0].numel() != len(self.probe):
            return [None] * len(images)
        shades = (16 * images.detach().flatten(1)).round().long()
        return (shades * self.probe).sum(1).tolist()

    def _before(self, leaves, losses):
        own, (found, expected) = self.company.own, self.last
        old = [leaf.grad for leaf in leaves if leaf.grad is not None]
        self.stale[own] += any(bool(grad.any()) for grad in old)
        self.private[own] += not any(leaf.is_shared() for leaf in leaves)
        loss = sum(float(loss.detach().sum()) for loss in losses)
        # where the weights are no numbers, nothing is expected of a loss
        lost = min(found, default=-1) >= 0 and not math.isfinite(expected)
        self.strange[own] += not (lost or abs(loss - expected) < 1e-3)

    def _after(self, grads):
        own, (found, _) = self.company.own, self.last
        step = self.backwards[own]
        if step < LONGEST and grads:
            room = self.grads[own, step]
            flat = max(grads, key=torch.Tensor.numel).detach().flatten()[: len(room)]
            room[: len(flat)] = flat.numpy()
            self.samples[own, step, : len(found[:BATCH])] = found[:BATCH]
            self.sizes[own, step] = len(found)
        self.backwards[own] += 1
        if own and step >= LONGEST:  # it has gone on for too long, perhaps for ever
            sys.stdout.flush()
            os._exit(0)
        self.threads[own] = max(self.threads[own], self.threads_now)
        self.shared_grad[own] += any(grad.is_shared() for grad in grads)
        if own and step < _HELD:
            self.company.hold()

    def _count_threads(self, count):
        self.threads_now = count

    def _stepped(self, optimizer, *_):
        own = self.company.own
        self.steps[own] += 1
        values = [v for state in optimizer.state.values() for v in state.values()]
        shared = any(torch.is_tensor(v) and v.is_shared() for v in values)
        self.shared_state[own] += shared


def _leaves(losses):
    """The parameters that losses were computed from."""
    found, todo = {}, [loss.grad_fn for loss in losses if loss.grad_fn]
    while todo:
        node = todo.pop()
        if hasattr(node, "variable"):
            found[id(node.variable)] = node.variable
        todo += [one for one, _ in node.next_functions if one]
    return list(found.values())


def _shared(shape, kind):
    """An array of zeros that forked processes share."""
    size = int(numpy.prod(shape)) * numpy.dtype(kind).itemsize
    return numpy.frombuffer(mmap.mmap(-1, size), dtype=kind).reshape(shape)
