"""Training steps on a virtual GPU, at their real sizes: shapes are computed, no numbers.

Virtual GPUs keep their numbers on the CPU. Here they keep none: their tensors wrap
tensors of PyTorch's device "meta", which have a shape and a type. The operators, the
bytes and the clock are the same, so a batch of 256 images takes seconds.
"""

import contextlib
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import trained
from course_lib.accelerators.hardware import DataSheet
from course_lib.accelerators.selection import devices
from course_lib.accelerators.vgpu import copies, factories, operators
from course_lib.accelerators.virtual import machine

DTYPES = {"amp16": torch.float16, "amp-bf16": torch.bfloat16}


@contextlib.contextmanager
def shapes_only():
    """Let virtual GPUs compute shapes, and hold more than this machine has."""
    meta = torch.device("meta")
    with contextlib.ExitStack() as stack:
        for module in (operators, factories, copies):
            stack.enter_context(mock.patch.object(module, "CPU", meta))
        stack.enter_context(mock.patch.object(machine, "most", float("inf")))
        yield


@contextlib.contextmanager
def tf32(precision: str):
    """PyTorch's switches as a figure had them."""
    conv, matmul = torch.backends.cudnn.conv, torch.backends.cuda.matmul
    before = conv.fp32_precision, matmul.fp32_precision
    which = "ieee" if precision == "float32" else "tf32"
    conv.fp32_precision = matmul.fp32_precision = which
    try:
        yield
    finally:
        conv.fp32_precision, matmul.fp32_precision = before


class Training:
    """The second step of a training on one virtual GPU: its seconds and its memory.

    `shards`: on how many GPUs FSDP shards what the optimizer works on. `steps`: how
    many batches a step of the optimizer has.
    """

    def __init__(self, name, shape, precision, *, gpu: DataSheet):
        (self.device,) = devices(1, gpu=gpu, memory="900 TB", quiet=True)
        self.precision, self.name, self.shape = precision, name, shape
        self.memory = torch.get_device_module(self.device)
        with torch.device(self.device):
            self.network = trained.network(name, shape[1])
        parameters = list(self.network.parameters())
        if self.name.startswith("MPT"):
            # FSDP computes with copies in half precision of what the optimizer has
            parameters = [nn.Parameter(p.detach().clone()) for p in parameters]
            for parameter in parameters:
                parameter.grad = torch.empty_like(parameter)
            self.network.to(DTYPES[precision])
        self.optimizer = self._optimizer(parameters)
        self.passes = self.step = 0.0

    def _optimizer(self, parameters):
        if self.name == "ResNet-50":
            return torch.optim.SGD(parameters, lr=0.1, momentum=0.875, weight_decay=3e-5)
        return torch.optim.AdamW(parameters, lr=1e-4)

    def run(self, batches=2):
        """Train; what the last step took is in `passes` and `step`, in seconds."""
        x, classes = trained.batch(self.name, self.shape, self.device)
        for _ in range(batches):
            self.network.zero_grad()
            start = machine.clock.wait()
            self._backward(x)
            middle = machine.clock.wait()
            self.optimizer.step()
            self.passes = middle - start
            self.step = machine.clock.wait() - middle
        return self

    def _backward(self, x):
        loss = self.loss(x)
        self.held = self.memory.memory_allocated(self.device)
        loss.backward()

    def loss(self, x):
        """The forward pass."""
        # LLM Foundry's norm and loss work in half precision
        keeps = [F.layer_norm, F.cross_entropy] if self.name.startswith("MPT") else []
        dtype = DTYPES.get(self.precision)
        cast = trained.Autocast(dtype, keeps) if dtype else contextlib.nullcontext()
        with cast:
            out = self.network(x)
            target = torch.zeros(len(out), dtype=torch.int64, device=x.device)
            return F.cross_entropy(out, target)
