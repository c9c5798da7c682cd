"""Who asks PyTorch, and not `torch.vgpu`, for devices: answers of virtual GPUs."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

import torch
from torch.jit._builtins import _register_builtin
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_leaves

from course_lib.accelerators.vgpu.stand_ins import numbered
from course_lib.accelerators.vgpu.streams import VirtualStream
from course_lib.accelerators.vgpu.tensors import VirtualTensor
from course_lib.accelerators.virtual import machine

# fmt: off
_SHARED = (
    "is_available", "device_count", "set_stream", "current_stream", "synchronize",
    "empty_cache", "empty_host_cache", "memory_stats", "memory_allocated",
    "max_memory_allocated", "memory_reserved", "max_memory_reserved",
    "reset_peak_memory_stats", "reset_accumulated_memory_stats",
)
# those that PyTorch cannot ask for pinned memory, and that programs do
_FACTORIES = (
    "empty", "full", "ones", "rand", "randn", "tensor", "zeros",
    "empty_like", "zeros_like",
)
# fmt: on


def patch_accelerator(api) -> None:
    """Let `torch.accelerator` and `x.to("vgpu")` know the devices and the current one.

    PyTorch asks a backend in Python for neither: it takes device 0 and one stream.
    """
    names = {name: getattr(api, name) for name in _SHARED} | {
        "current_accelerator": _current_accelerator,
        "current_device_index": api.current_device,
        "current_device_idx": api.current_device,
        "set_device_index": api.set_device,
        "set_device_idx": api.set_device,
        "device_index": api.device,
        "get_memory_info": api.mem_get_info,
        "get_device_capability": _kinds_of_numbers,
    }
    for name, own in names.items():
        original = getattr(torch.accelerator, name, own)  # another torch may lack it
        for module in (torch.accelerator, torch.accelerator.memory):
            if hasattr(module, name):
                setattr(module, name, _either(original, own))
    # `with torch.device(...)` gives these a device, and knows them by what they are now
    _device_constructors()
    for name in _FACTORIES:
        _replace(name, _pinned(getattr(torch, name)))
    for name in ("tensor", "as_tensor"):
        _replace(name, _indexed(getattr(torch, name)))
    torch.Tensor.to = _named(_indexed(torch.Tensor.to), "Tensor.to")
    torch.compile = _eager(torch.compile)
    functions = torch.nn.parallel._functions
    functions._get_stream = _either(functions._get_stream, VirtualStream)
    torch.Tensor.record_stream = _ignoring_ours(torch.Tensor.record_stream)
    # a machine with one GPU has virtual ones beside it: these are meant then
    original = torch._utils._get_available_device_type
    # the module, which imports it by name; in the package this name is a function's
    parallel: Any = sys.modules["torch.nn.parallel.data_parallel"]
    for owner in (torch._utils, parallel):
        owner._get_available_device_type = lambda: (
            "vgpu" if machine.count else original()
        )


def _either(original, own):
    """Take the function of PyTorch while there are no virtual GPUs, else our own."""

    @functools.wraps(original)
    def chosen(*args, **kwargs):
        return (own if machine.count else original)(*args, **kwargs)

    return chosen


def _ignoring_ours(record_stream):
    # a batched gradient is a plain tensor around ours, which does not take our stream
    @functools.wraps(record_stream)
    def wrapped(tensor, stream):
        if not isinstance(stream, VirtualStream):
            record_stream(tensor, stream)

    return wrapped


def _current_accelerator(check_available=False):
    return torch.device("vgpu")


def _kinds_of_numbers(device=None):
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    return {"supported_dtypes": dtypes}


def _replace(name, function):
    """Let a function stand in place of `torch.name`."""
    setattr(torch, name, _named(function, name))
    # torch.jit knows functions by what they are
    _register_builtin(function, f"aten::{name}")


def _named(function, name):
    # by this name it travels to ranks
    function.__module__, function.__qualname__ = "torch", name
    return function


def _pinned(original):
    """Let a factory of PyTorch make memory which counts as pinned."""

    @functools.wraps(original)
    def called(*args, pin_memory=False, **kwargs):
        made = original(*args, **kwargs)
        return made.pin_memory() if pin_memory else made

    return called


def _indexed(original):
    """Let "vgpu" without a number be the current device in a function of PyTorch."""

    @functools.wraps(original)
    def called(*args, **kwargs):
        # without a number PyTorch takes device 0, and most often that is right
        if machine.current.index:
            args = tuple(_numbered(value) for value in args)
            kwargs = {key: _numbered(value) for key, value in kwargs.items()}
        return original(*args, **kwargs)

    return called


def _numbered(value):
    if isinstance(value, str | torch.device) and str(value) == "vgpu":
        return numbered(torch.device(value))
    return value


def _eager(original):
    """`torch.compile`, which leaves as it is what works on virtual GPUs."""

    @functools.wraps(original)
    def compiled(model=None, **options):
        if model is None:
            return functools.partial(compiled, **options)
        if not machine.count:
            return original(model, **options)
        if isinstance(model, torch.nn.Module):
            virtual = _virtual(list(model.parameters()))
            return _as_it_is(model) if virtual else original(model, **options)
        fast = original(model, **options)

        @functools.wraps(model)
        def chosen(*args, **kwargs):
            run = _as_it_is(model) if _virtual((args, kwargs)) else fast
            return run(*args, **kwargs)

        return chosen

    return compiled


def _virtual(tree):
    return any(isinstance(leaf, VirtualTensor) for leaf in tree_leaves(tree))


def _as_it_is(model):
    warnings.warn(
        "torch.compile leaves the model as it is: virtual GPUs run it operator by"
        " operator.",
        stacklevel=3,
    )
    return model
