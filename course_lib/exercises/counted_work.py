"""What an answer costs, counted below PyTorch's own functions, where nothing passes by.

`model(x)`, `model.forward(x)`, `functional_call`, a copy of the model and a layer by
hand end in the same operators. So these are counted, and not the calls of modules.
"""

import contextlib
import copy
import functools
import threading

import torch
from torch import nn, ops
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.accelerators import cost
from course_lib.exercises import baseline

# by the layer that a model starts with: its operators, with the places of weight and
# samples; that of a Linear comes transposed
_FIRST = {
    nn.Linear: {ops.aten.addmm: (2, 1), ops.aten.mm: (1, 0)},
    nn.Conv2d: {ops.aten.convolution: (1, 0)},
    nn.Embedding: {ops.aten.embedding: (0, 1)},
}
# operators that copy, with the place of what is copied
_COPIES = {ops.aten._to_copy: 0, ops.aten.copy_: 1}
_flops_of = functools.cache(cost.flops_of)


class Work(TorchDispatchMode):
    """Counts in a block: FLOPs by the name of a device, and passes through a model.

    `passes` lists how many samples there were each time that some went through a layer
    with the shape of the model's first weight.
    """

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.flops, self.passes = {}, []
        layer = next(m for m in model.modules() if type(m) in _FIRST)
        self._places = _FIRST[type(layer)]
        shape = layer.weight.shape
        self._shape = shape[::-1] if isinstance(layer, nn.Linear) else shape

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # operators are not wrapped against a compiler

    def __torch_dispatch__(self, operator, _types, args=(), kwargs=None):
        # there operators come whole that elsewhere autograd takes apart
        if torch.is_inference_mode_enabled() and operator._can_decompose():
            return self._in_parts(operator, args, kwargs or {})
        self.note_pass(operator.overloadpacket, args)
        result = operator(*args, **(kwargs or {}))
        count = _flops_of(operator)
        if count:
            device = str(next(filter(torch.is_tensor, args)).device)
            flops = count(args, kwargs or {}, result)
            self.flops[device] = self.flops.get(device, 0) + flops
        return result

    def _in_parts(self, operator, args, kwargs):
        """Run what an operator is made of, and let each part come here again."""
        TorchDispatchMode.__enter__(self)  # a subclass may do more on its own
        try:
            return operator.decompose(*args, **kwargs)
        finally:
            TorchDispatchMode.__exit__(self, None, None, None)

    def note_pass(self, packet, args) -> None:
        """Note an operator before it is run; a subclass may note more."""
        # before it is run, for one that runs out of memory never gets to its end
        if packet in self._places:
            weight, samples = (args[place] for place in self._places[packet])
            if weight.shape == self._shape:
                self.passes.append(len(samples))


def flops_of(pairs) -> int:
    """Return the FLOPs of a plain training of the network on images and labels."""
    model = baseline.network()
    with Work(model) as work:
        for images, labels in pairs:
            nn.functional.cross_entropy(model(images), labels).backward()
    return sum(work.flops.values())


class Copies(TorchDispatchMode):
    """Notes in `tensors` what is copied from one device to another in a block.

    Each as the names of both devices and another copy, which lives on.
    """

    def __init__(self):
        super().__init__()
        self.tensors = []

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, operator, _types, args=(), kwargs=None):
        copy = operator(*args, **(kwargs or {}))
        place = _COPIES.get(operator.overloadpacket)
        if place is not None and copy.device != args[place].device:
            places = str(args[place].device), str(copy.device)
            self.tensors.append((*places, copy.clone()))
        return copy


@contextlib.contextmanager
def everywhere(mode: TorchDispatchMode):
    """Enter a mode here, and in each thread that starts in the block.

    By itself a mode knows nothing of threads, in which `nn.DataParallel` computes.
    """
    start = threading.Thread.start

    def starting(thread):
        run = thread.run

        def within():
            with copy.copy(mode):  # what it notes in is shared
                run()

        thread.run = within
        start(thread)

    threading.Thread.start = starting
    try:
        with mode:
            yield mode
    finally:
        threading.Thread.start = start
