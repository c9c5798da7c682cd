"""Exercise 5.2, in a rank: several processes train one model, their updates noted.

All is seen below autograd, where backward(), autograd.grad and torch.func.grad are the
same operators, and so are an optimizer's step and one by hand.
"""

import functools
import os
import sys

import numpy
import torch
import torch.multiprocessing as mp
from torch import nn, ops
from torch.nn.functional import cross_entropy, one_hot
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import TensorDataset

from course_lib.exercises import baseline
from course_lib.exercises.observe.forked import MOST, Family, shared, watched, written

BATCH = 32
LONGEST = 90  # steps of a process that are noted; with one more it ends
_HELD = 8  # of its first updates, before which a process waits for another
_THREADS = 4  # that a process has if it does not say otherwise
_NOTES = ("gradients", "steps", "threads", "private", "beside", "locked")
_CLASSES = 10


def observe(rank, world_size, answer, given):
    """What `answer(model, data, processes)` did: each gradient, and what arrived."""
    import torch._dynamo  # an optimizer needs it: once, not in each process

    images, labels = given["data"]
    family, model = Family(given["processes"], _NOTES), baseline.network()
    cross_entropy(model(images[:BATCH]), labels[:BATCH]).backward()
    updates = _Updates(family, model, given["data"])
    before = [p.detach().clone() for p in model.parameters()]
    earlier = updates.weights().grad.flatten().clone()
    register_optimizer_step_post_hook(lambda *_: family.note("steps"))
    _count_threads(updates, answer)
    with watched(family), updates:
        answer(model, TensorDataset(images, labels), given["processes"])
        facts = family.facts()
        after = [p.detach().clone() for p in model.parameters()]
    names = [name for name, _ in model.named_parameters()]
    return (
        facts
        | updates.seen()
        | {
            "shared": updates.weights().is_shared(),
            "unchanged": [
                n for n, *two in zip(names, before, after) if torch.equal(*two)
            ],
            "arrived": updates.arrived(earlier, before, after),
        }
    )


def _count_threads(updates, answer):
    """Note how many threads are asked for; a pool of the rank's would not be forked."""
    set_threads = torch.set_num_threads
    torch.set_num_threads = functools.partial(setattr, updates, "threads")
    torch.get_num_threads = lambda: updates.threads
    own = getattr(answer, "__globals__", {})
    for name in [name for name, value in own.items() if value is set_threads]:
        own[name] = torch.set_num_threads


class _Updates(TorchDispatchMode):
    """What each process computes: the gradients of the largest weights, their samples.

    A process is held before its first updates, so that others come in between. The
    update itself is one thing: two at the same moment lose single numbers by chance.
    """

    def __init__(self, family, model, data):
        super().__init__()
        self.family, self.model, self.lock = family, model, mp.Lock()
        self.threads = _THREADS
        self.shape = self.weights().shape
        self.labels, self.logits, self.slope, self.used = data[1], None, None, 0
        self.probe = torch.randint(1 << 40, (self.shape[1],))
        self.known = {key: n for n, key in enumerate(self._keys(data[0].flatten(1)))}
        size = self.weights().numel()
        self.gradients = shared((MOST, LONGEST, size), numpy.float32)
        self.samples = shared((MOST, LONGEST, BATCH))
        self.samples[:] = -1  # none
        self.sizes = shared((MOST, LONGEST))
        self.scales, self.rests = (
            shared((MOST, LONGEST), numpy.float64) for _ in range(2)
        )

    @classmethod
    def _should_skip_dynamo(cls):
        """Let PyTorch not wrap this mode against a compiler: that costs half."""
        return False

    def weights(self) -> nn.Parameter:
        """The largest parameter of the model that the answer is given."""
        return max(self.model.parameters(), key=torch.Tensor.numel)

    # PyTorch calls it so
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        targets = written(operator, args, kwargs)
        if not targets:
            result = operator(*args, **kwargs)
            self._note_product(operator.overloadpacket, args, result)
            return result
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
        self.family.note_write("writes")
        if self.family.own and self.family.writes[self.family.own] <= _HELD:
            self.family.hold()

    def _note_product(self, packet, args, result):
        if packet is ops.aten.addmm:
            if args[2].shape == self.shape[::-1]:
                self.used = args[2].data_ptr()
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

    def _note_gradient(self, gradient, samples):
        found = [self.known.get(key, -1) for key in self._keys(samples)]
        if max(found, default=-1) < 0:
            return
        own, family = self.family.own, self.family
        step = family.gradients[own]
        if own and step >= LONGEST:  # it has gone on for too long, perhaps for ever
            family.note("ended")
            sys.stdout.flush()
            os._exit(0)
        if step < LONGEST:
            self.gradients[own, step] = gradient.flatten().numpy()
            self.samples[own, step, : len(found)] = found[:BATCH]
            self.sizes[own, step] = len(found)
            scale, rest = self._slope(torch.tensor(found))
            self.scales[own, step], self.rests[own, step] = scale, rest
        family.note("gradients")
        family.threads[own] = max(family.threads[own], self.threads)
        family.private[own] += not self.weights().is_shared()
        family.locked[own] += bool(family.own_locks())

    def _slope(self, found):
        """How steep the loss is, 1 for the mean cross-entropy, and how much it differs.

        The slope is what backward begins with: its derivative by the logits.
        """
        shape = (len(found), _CLASSES)
        if self.logits is None or self.slope is None:
            return 1.0, 0.0
        if self.logits.shape != shape or self.slope.shape != shape:
            return 1.0, 0.0
        hot = one_hot(self.labels[found], _CLASSES)
        expected = ((self.logits.softmax(1) - hot) / len(found)).double().flatten()
        slope = self.slope.double().flatten()
        scale = slope @ expected / expected.square().sum()
        rest = (slope - scale * expected).norm() / slope.norm()
        return scale.item(), rest.item()

    def _keys(self, images):
        """A number for each image; digits have 17 shades, so it is exact."""
        shades = (16 * images.detach()).round().long()
        return (shades * self.probe).sum(1).tolist()

    @property
    def trainers(self) -> list[int]:
        """Numbers of the processes that train, not of those that load for them."""
        family = self.family
        return [n for n in family.born() if family.gradients[n] or not family.above[n]]

    def seen(self) -> dict:
        """All of it as plain data; of samples and slopes only for those that train."""
        own = [(n, slice(self.family.gradients[n])) for n in self.trainers]
        noted = {
            name: [getattr(self, name)[n, steps].tolist() for n, steps in own]
            for name in ("sizes", "scales", "rests")
        }
        read = [torch.tensor(self.samples[n, steps].flatten()) for n, steps in own]
        noted["samples"] = [part[part >= 0] for part in read]
        return noted | self.family.notes(*_NOTES) | {"trainers": self.trainers}

    def arrived(self, earlier, before, after) -> dict:
        """How much of each gradient is in the weights: of SGD 1, if it is lost 0.

        The change of the weights is a sum of gradients, the `earlier` one first, each
        times a factor: solved for these; `rest` is the share that they do not explain.
        """
        counts = [min(self.family.gradients[n], LONGEST) for n in self.trainers]
        rows = [self.gradients[n, :count] for n, count in zip(self.trainers, counts)]
        place = max(range(len(before)), key=lambda n: before[n].numel())
        change = (before[place] - after[place]).double().flatten() / baseline.RATE
        if not sum(counts) or not change.isfinite().all():
            return {"factors": [], "earlier": 0.0, "rest": 0.0}
        rows = numpy.concatenate([earlier.numpy()[None], *rows])
        matrix = torch.tensor(rows).double()
        solved = torch.linalg.lstsq(matrix.T, change[:, None], driver="gelsd").solution
        rest = change - matrix.T @ solved.flatten()
        first, *factors = solved.flatten().tolist()
        parts = torch.tensor(factors).split([int(count) for count in counts])
        share = (rest.norm() / change.norm().clamp(min=1e-30)).item()
        return {"factors": [p.tolist() for p in parts], "earlier": first, "rest": share}
