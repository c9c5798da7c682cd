"""Errors in the middle of a backward on a virtual GPU, and what comes to the caller.

`main` prints a line of JSON before each case, so that one which ends the process is
known, and a line with the error after it.
"""

import functools
import json
import os
import signal
import warnings

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from course_lib.accelerators.selection import devices

MUCH = 1_000_000  # numbers, which no device here can hold


def stop(*_):
    raise ValueError("stop here")


def interrupt(slope):
    os.kill(os.getpid(), signal.SIGINT)
    return slope * 2


def leaf(device):
    return torch.ones(3, device=device, requires_grad=True)


def left_elsewhere(x, device):
    """`x` on another device, by a Function that leaves its gradient there."""

    class Stays(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.to(device)

        @staticmethod
        def backward(context, slope):
            return slope

    return Stays.apply(x)


def function(backward):
    """A custom autograd Function with this backward."""
    methods = {"forward": lambda context, x: x * 2, "backward": backward}
    methods = {name: staticmethod(method) for name, method in methods.items()}
    return type("Own", (torch.autograd.Function,), methods).apply


def own_function(device):
    function(stop)(leaf(device) * 3).sum().backward()


def own_function_by_grad(device):
    x = leaf(device)
    torch.autograd.grad(function(stop)(x).sum(), x)


def operator_in_own_function(device):
    other = torch.ones(3, device="vgpu:2")
    function(lambda context, slope: slope + other)(leaf(device)).sum().backward()


def memory_in_own_function(device):
    def grow(context, slope):
        return slope + torch.ones(MUCH, device=device).sum()

    function(grow)(leaf(device)).sum().backward()


def number_of_gradients(device):
    function(lambda context, slope: (slope, slope))(leaf(device)).sum().backward()


def tensor_hook(device, hook=stop):
    middle = leaf(device) * 3
    middle.register_hook(hook)
    middle.sum().backward()


def tensor_hook_of_a_leaf(device):
    x = leaf(device)
    x.register_hook(stop)
    x.sum().backward()


def memory_in_a_hook(device):
    tensor_hook(device, lambda slope: torch.ones(MUCH, device=device)[:3])


def interrupt_in_a_hook(device):
    tensor_hook(device, interrupt)


def accumulation_hook(device):
    x = leaf(device)
    x.register_post_accumulate_grad_hook(stop)
    x.sum().backward()


def module_hook(device):
    model = nn.Linear(3, 2).to(device)
    model.register_full_backward_hook(stop)
    model(leaf(device)).sum().backward()


def module_hook_before(device):
    model = nn.Linear(3, 2).to(device)
    model.register_full_backward_pre_hook(stop)
    model(leaf(device)).sum().backward()


def saved_tensor(device):
    with saved_tensors_hooks(lambda x: x.detach(), stop):
        middle = leaf(device).exp()
    middle.sum().backward()


def recomputed(device, *, wrong, reentrant=(), x=None):
    """A block in checkpoints, one for each of `reentrant`, that goes `wrong` again."""
    calls = []

    def block(x):
        calls.append(x)
        return x.exp() if len(calls) == 1 else x * wrong(x)

    for kind in reentrant:
        options = {"use_reentrant": kind}
        block = functools.partial(checkpoint, block, **options)
    block(leaf(device)).sum().backward()


def grow(x):
    return torch.ones(MUCH, device=x.device)[:3]


KINDS = (True,), (False,), (True, True), (True, False), (False, True), (False, False)
CASES = {
    case.__name__: case
    for case in (
        own_function,
        own_function_by_grad,
        operator_in_own_function,
        memory_in_own_function,
        number_of_gradients,
        tensor_hook,
        tensor_hook_of_a_leaf,
        memory_in_a_hook,
        interrupt_in_a_hook,
        accumulation_hook,
        module_hook,
        module_hook_before,
        saved_tensor,
    )
}
for kinds in KINDS:
    words = " in ".join("reentrant" if kind else "plain" for kind in kinds)
    for name, wrong in (("error", stop), ("memory", grow)):
        case = functools.partial(recomputed, wrong=wrong, reentrant=kinds)
        CASES[f"{name} in {words} checkpoint"] = case


def run(case, device):
    """The error of a case, whether the next backward works, and what is still held."""
    before = torch.vgpu.memory_allocated(device)
    try:
        case(device)
        found = "nothing"
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"
        error.__traceback__ = error.__context__ = error.__cause__ = None
    x = leaf(device)
    (x * x).sum().backward()
    works = x.grad.tolist() == [2, 2, 2]
    del x
    return found, works, torch.vgpu.memory_allocated(device) - before


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for device in devices(3, "1 MB", quiet=True)[:2]:
        for name, case in CASES.items():
            label = f"{name}, {device}"
            print(json.dumps([label]), flush=True)
            print(json.dumps([label, *run(case, device)]), flush=True)
