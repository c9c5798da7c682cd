"""Training steps on a virtual GPU at their real sizes: shapes, and no numbers.

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
from course_lib.accelerators.vgpu import attention, copies, factories, operators
from course_lib.accelerators.virtual import machine

DTYPES = {"amp16": torch.float16, "amp-bf16": torch.bfloat16}


@contextlib.contextmanager
def shapes_only():
    """Let virtual GPUs compute shapes, and hold more than this machine has."""
    meta = torch.device("meta")
    with contextlib.ExitStack() as stack:
        # PyTorch's kernel for shapes writes the output of attention in another order
        kernels = torch.library._scoped_library("aten", "IMPL")
        attention.register_kernels(stack.enter_context(kernels), "Meta")
        for module in (operators, factories, copies):
            stack.enter_context(mock.patch.object(module, "CPU", meta))
        stack.enter_context(mock.patch.object(machine, "most", float("inf")))
        stack.enter_context(mock.patch.object(attention, "_SCORES", 2**62))
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
    """A training of one network on one virtual GPU.

    After `run`: `passes` and `step` are the seconds of the last forward and backward,
    and of the optimizer; `peak` and `state` are bytes: the most that was held, and what
    the optimizer works on.
    """

    def __init__(self, name, shape, precision, *, gpu: DataSheet):
        (self.device,) = devices(1, gpu=gpu, memory="900 TB", quiet=True)
        self.name, self.precision = name, precision
        self.batch = trained.batch(name, shape, self.device)
        with torch.device(self.device):
            self.network = trained.network(name, shape[1])
        parameters = list(self.network.parameters())
        if name.startswith("MPT"):
            # FSDP computes with copies in half precision of what the optimizer has
            parameters = [nn.Parameter(p.detach().clone()) for p in parameters]
            for parameter in parameters:
                parameter.grad = torch.empty_like(parameter)
            self.network.to(DTYPES[precision])
        self.optimizer = _optimizer(name, parameters)
        # with gradients, and the two of Adam
        self.state = 4 * sum(parameter.nbytes for parameter in parameters)
        self.passes = self.step = 0.0

    def run(self) -> "Training":
        """Train for two steps: the first one also makes the optimizer's state."""
        for _ in range(2):
            start = machine.clock.wait()
            self.compute()
            middle = machine.clock.wait()
            self.optimizer.step()
            self.passes, self.step = middle - start, machine.clock.wait() - middle
        module = torch.get_device_module(self.device)
        self.peak = module.max_memory_allocated(self.device)
        return self

    def compute(self):
        """Forward and backward of one batch."""
        self.network.zero_grad()
        self._loss().backward()

    def _loss(self):
        dtype = DTYPES.get(self.precision)
        with torch.autocast(self.device.type, dtype, enabled=dtype is not None):
            out = self.network(self.batch)
            target = torch.zeros(len(out), dtype=torch.int64, device=self.device)
            if not self.name.startswith("MPT"):
                return F.cross_entropy(out, target)
        # LLM Foundry's loss works in half precision
        return F.cross_entropy(out, target)


def _optimizer(name, parameters):
    if name == "ResNet-50":
        options = {"lr": 0.1, "momentum": 0.875, "weight_decay": 3e-5}
        return torch.optim.SGD(parameters, **options)
    return torch.optim.AdamW(parameters, lr=1e-4)


def parameters(name: str, sequence: int) -> int:
    """How many parameters a network has."""
    with torch.device("meta"):
        network = trained.network(name, sequence)
    return sum(parameter.numel() for parameter in network.parameters())


def layer(sizes: tuple[int, int, int, int], *, plain: bool) -> int:
    """Bytes that a GPT layer of (width, heads, batch, sequence) keeps for backward.

    In float16, with dropout: what the forward pass of two layers keeps, less one's.
    """
    two, one = (_kept(depth, sizes, plain) for depth in (2, 1))
    return two - one


def _kept(depth, sizes, plain):
    width, heads, batch, sequence = sizes
    with shapes_only():
        (device,) = devices(1, gpu="A100", memory="900 TB", quiet=True)
        options = {"causal": True, "plain": plain, "dropout": 0.1}
        with torch.device(device):
            shape = depth, width, heads, 1024, sequence
            network = trained.Transformer(shape, **options).to(torch.float16)
        tokens = torch.zeros(batch, sequence, dtype=torch.int64, device=device)
        allocated = torch.get_device_module(device).memory_allocated
        before = allocated(device)
        out = network(tokens)
        return allocated(device) - before - out.nbytes
