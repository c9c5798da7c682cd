"""Exercise 5.2, in a rank: several processes train one model, their updates noted.

All is seen below autograd, where backward(), autograd.grad and torch.func.grad are the
same operators, and so are an optimizer's step and one by hand.
"""

import functools
import os
import sys

import numpy
import torch
from torch import nn, ops
from torch.nn.functional import cross_entropy, one_hot
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import TensorDataset

from course_lib.exercises import baseline
from course_lib.exercises.child_processes import (
    AT_WRITE,
    FORK,
    MOST,
    Family,
    Writes,
    replace,
    shared,
    watched,
)

BATCH = 32
LONGEST = 90  # steps of a process that are noted; with one more it ends
_HELD = 8  # of its first updates, before which a process waits for another
_THREADS = 4  # that a process has if it does not say otherwise
_CLASSES = 10


class Trainers(Family):
    """Of processes that train, how many gradients and steps they have made, too."""

    gradients: numpy.ndarray
    steps: numpy.ndarray
    threads: numpy.ndarray
    private: numpy.ndarray
    late: numpy.ndarray  # gradients after the updates before which it was held
    apart: numpy.ndarray  # of these, those of other weights than are updated
    beside: numpy.ndarray  # writes to shared tensors that are no weights


def observe(rank, world_size, answer, given):
    """Return what `answer(model, data, processes)` did: gradients, and what arrived."""
    import torch._dynamo  # an optimizer needs it: once for all processes

    images, labels = given["data"]
    model = baseline.network()
    _begin(model, images[:BATCH], labels[:BATCH])
    family = Trainers(given["processes"])
    updates = _Updates(family, model, given["data"])
    before = [p.detach().clone() for p in model.parameters()]
    earlier = updates.weights().grad.flatten().clone()
    register_optimizer_step_post_hook(lambda *_: family.note("steps"))
    count = functools.partial(setattr, updates, "threads")
    replace(answer, torch, "set_num_threads", count)
    # a pool of the rank's would not be forked
    torch.get_num_threads = lambda: updates.threads
    with watched(family, answer), updates:
        answer(model, TensorDataset(images, labels), given["processes"])
        # what those that train have started loads for them, or gets something ready
        family.helper |= family.nested & (family.gradients == 0)
        facts = family.facts()
    facts |= family.notes(*Trainers.__annotations__)
    return facts | updates.seen(earlier, before)


def _begin(model, images, labels):
    """Give the model the gradients of one batch, computed by a process of its own.

    Where there are GPUs, backward starts threads, and PyTorch lets no process that was
    forked after it call backward again.
    """
    parameters = list(model.parameters())
    gradients = [shared(*p.shape, kind=numpy.float32) for p in parameters]

    def compute():
        cross_entropy(model(images), labels).backward()
        for parameter, gradient in zip(parameters, gradients):
            gradient[:] = parameter.grad.numpy()

    child = FORK.Process(target=compute)
    child.start()
    child.join()
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = torch.tensor(gradient)


class _Updates(Writes):
    """What each process computes: the gradients of the largest weights, their samples.

    A process is held before its first updates, so that others come in between. The
    update itself is one thing: two at the same moment lose single numbers by chance.
    """

    family: Trainers

    def __init__(self, family, model, data):
        super().__init__(family)
        self.model, self.lock, self.threads = model, FORK.Lock(), _THREADS
        self.shape = self.weights().shape
        self.labels, self.used, self.apart = data[1], 0, False
        self.target = self.weights()
        self.logits = self.slope = torch.empty(0)
        self.known = {key: n for n, key in enumerate(_keys(data[0].flatten(1)), 1)}
        size = self.weights().numel()
        steps = MOST, LONGEST
        self.gradients = shared(*steps, size, kind=numpy.float32)
        self.samples = shared(*steps, len(self.labels))  # from 1; 0 is none
        self.memory = shared(*steps)  # that each of its writes changed
        self.off = shared(MOST, kind=numpy.float64)

    def weights(self) -> nn.Parameter:
        """Return the largest parameter of the model that the answer is given."""
        return max(self.model.parameters(), key=torch.Tensor.numel)

    def write(self, operator, args, kwargs, targets):
        for target in targets:
            self._before_write(target)
        with self.lock:
            return operator(*args, **kwargs)

    def _before_write(self, target):
        if target.shape != self.shape:
            return
        if target.data_ptr() not in (self.used, self.weights().data_ptr()):
            self.family.note("beside")  # gradients, most likely
            return
        own, self.target = self.family.own, target.detach()
        place = min(self.family.writes[own], LONGEST - 1)
        self.memory[own, place] = _memory(target.data_ptr())
        self.family.note_write("writes")
        if own and self.family.writes[own] <= _HELD:
            self.family.hold(AT_WRITE)

    def _is_updated(self, weights):
        """True for weights that have the numbers of those that get the updates.

        A process may compute with a copy, if it reads the others' updates before.
        """
        if weights.data_ptr() == self.target.data_ptr():
            return True
        with self.lock:
            return torch.equal(weights.detach(), self.target)

    def compute(self, operator, args, kwargs):
        result, packet = operator(*args, **kwargs), operator.overloadpacket
        if packet is ops.aten.addmm:
            if args[2].shape == self.shape[::-1]:
                self.used = args[2].data_ptr()
                self.apart = not self._is_updated(args[2].T)
            elif result.shape[1] == _CLASSES:
                self.logits = result.detach().clone()
        elif packet is ops.aten.mm:
            # the gradient of weights is made of samples and slopes, also transposed
            for one, two in (args, (args[1].T, args[0].T)):
                if (len(one), two.shape[1]) == self.shape:
                    self._note_gradient(one @ two, two)
                    break
                if len(one) == _CLASSES:
                    self.slope = one.T.clone()
        return result

    def _note_gradient(self, gradient, samples):
        found = numpy.array([self.known.get(key, 0) for key in _keys(samples)])
        if not found.any():
            return
        own, family = self.family.own, self.family
        if own and family.gradients[own] >= LONGEST:  # perhaps it goes on for ever
            family.note("ended")
            sys.stdout.flush()
            os._exit(0)
        step = min(family.gradients[own], LONGEST - 1)
        self.gradients[own, step] = gradient.flatten().numpy()
        self.samples[own, step, : len(found)] = found[: len(self.labels)]
        self.off[own] = max(self.off[own], self._off(torch.tensor(found) - 1))
        family.note("gradients")
        if family.writes[own] > _HELD:
            family.note("late")
            family.apart[own] += self.apart
        family.threads[own] = max(family.threads[own], self.threads)
        family.private[own] += not self.weights().is_shared()
        family.locked[own] += family.locking()

    def _off(self, found):
        """By what share the slope of the loss is not that of the mean cross-entropy.

        The slope is what backward begins with: its derivative by the logits.
        """
        if not self.logits.shape == self.slope.shape == (len(found), _CLASSES):
            return 0.0
        hot = one_hot(self.labels[found], _CLASSES)
        expected = (self.logits.softmax(1) - hot) / len(found)
        return ((self.slope - expected).norm() / expected.norm()).item()

    def steps(self, notes: numpy.ndarray) -> list[numpy.ndarray]:
        """Return what was noted of each step of the processes that may train.

        Those that load samples for others are left out.
        """
        done, helps = self.family.gradients, self.family.helper
        return [notes[n, : done[n]] for n in self.family.born() if not helps[n]]

    def seen(self, earlier, before) -> dict:
        """Return the samples of each step and what became of the weights."""
        samples = self.steps(self.samples)
        pairs = zip(before, self.model.named_parameters())
        return {
            "samples": [[row[row > 0].tolist() for row in part] for part in samples],
            "off": self.off.tolist(),
            "memory": [
                row[row > 0].tolist() for row in self.memory[self.family.born()]
            ],
            "shared": self.weights().is_shared(),
            "unchanged": [name for old, (name, p) in pairs if torch.equal(old, p)],
            "arrived": self.arrived(earlier, max(before, key=torch.Tensor.numel)),
        }

    def arrived(self, earlier, before) -> dict:
        """Return how much of each gradient is in the weights: 1 by SGD, 0 if lost.

        The change of the weights is a sum of gradients, the `earlier` one first, each
        times a factor: solved for these; `rest` is the share that they do not explain.
        """
        rows = numpy.concatenate([earlier.numpy()[None], *self.steps(self.gradients)])
        change = (before - self.weights().detach()).double().flatten() / baseline.RATE
        if len(rows) < 2 or not change.isfinite().all():
            return {"factors": [], "rest": 1.0}
        matrix = torch.tensor(rows).double().T
        solved = torch.linalg.lstsq(matrix, change[:, None], driver="gelsd").solution
        rest = change - (matrix @ solved).flatten()
        share = (rest.norm() / change.norm().clamp(min=1e-30)).item()
        return {"factors": solved.flatten().tolist(), "rest": share}


@functools.cache
def _memory(start):
    """A number for the memory at an address, the same wherever a process has it."""
    with open("/proc/self/maps") as file:
        for line in file:
            span, _, offset, _, inode, *_ = line.split()
            first, last = (int(end, 16) for end in span.split("-"))
            if first <= start < last:
                return (int(inode) << 31) + int(offset, 16) + start - first
    return 0


def _keys(images):
    """What is compared of each image: its bytes, as no two digits are the same."""
    return [image.tobytes() for image in images.detach().float().numpy()]
