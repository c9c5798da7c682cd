"""The backend "vgpu": what PyTorch is told and what is changed in it."""

from __future__ import annotations

import functools

import torch
from torch.fx.experimental import proxy_tensor
from torch.optim import optimizer
from torch.utils.backend_registration import (
    _setup_privateuseone_for_python_backend as register,
)

from course_lib.accelerators.vgpu import factories, tensors
from course_lib.accelerators.vgpu.api import Api, Stream, device
from course_lib.accelerators.vgpu.autograd import SPECIAL_CASES, Guard, single_threaded
from course_lib.accelerators.vgpu.comm import serve
from course_lib.accelerators.vgpu.copies import CROSSINGS
from course_lib.accelerators.vgpu.labels import after_step, before_step
from course_lib.accelerators.vgpu.operators import SPECIAL
from course_lib.accelerators.vgpu.refusals import refuse_what_crashes
from course_lib.accelerators.vgpu.tensors import VirtualTensor
from course_lib.accelerators.virtual import machine

_library: list = []


def install() -> None:
    """Register the backend "vgpu" with PyTorch; a second call does nothing."""
    if _library:
        return
    SPECIAL.update(CROSSINGS | SPECIAL_CASES)
    register("vgpu", Api(), device_guard=Guard())
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(factories.factory, "PrivateUse1")
    kernels = torch.library.Library("aten", "IMPL")
    kernels.impl("empty.memory_format", factories.empty, "PrivateUse1")
    kernels.impl("empty_strided", factories.empty_strided, "PrivateUse1")
    kernels.impl("_copy_from", factories.copy_from, "PrivateUse1")
    _library.extend([fallback, kernels])
    torch.serialization.register_package(9, lambda storage: None, factories.load)
    # optimizers then work on lists of parameters at once, as on CUDA
    optimizer._foreach_supported_types.append(VirtualTensor)
    optimizer.register_optimizer_step_pre_hook(before_step)
    optimizer.register_optimizer_step_post_hook(after_step)
    serve()
    refuse_what_crashes()
    # else make_fx, and torch.func.linearize with it, take our tensors for constants
    proxy_tensor.HANDLED_TYPES += (VirtualTensor,)
    _serve_accelerator()
    data = property(tensors.get_data, tensors.set_data)
    VirtualTensor.data = torch.nn.Parameter.data = data
    torch._has_compatible_shallow_copy_type = tensors.compatible(
        torch._has_compatible_shallow_copy_type
    )
    torch.autograd._engine_run_backward = single_threaded(
        torch.autograd._engine_run_backward
    )


def _serve_accelerator():
    """Let nn.DataParallel ask `torch.accelerator` for streams and current devices."""
    for name, function in (
        ("current_stream", Stream),
        ("device_index", device),
        ("device_count", lambda: machine.count),
        ("current_device_index", lambda: machine.place(None).index),
    ):
        setattr(torch.accelerator, name, function)
    torch.nn.parallel._functions._get_stream = lambda device: None
    torch.Tensor.record_stream = _ignoring_ours(torch.Tensor.record_stream)
    # a machine with one GPU has virtual ones beside it: these are meant then
    original = torch._utils._get_available_device_type
    for owner in (torch._utils, torch.nn.parallel.data_parallel):
        owner._get_available_device_type = lambda: (
            "vgpu" if machine.count else original()
        )


def _ignoring_ours(record_stream):
    # a batched gradient is a plain tensor around ours, which does not take our stream
    @functools.wraps(record_stream)
    def wrapped(tensor, stream):
        if not isinstance(stream, Stream):
            record_stream(tensor, stream)

    return wrapped
