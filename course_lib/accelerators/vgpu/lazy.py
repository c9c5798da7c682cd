"""nn.LazyLinear and the like: parameters that get their shape in the first forward."""

from __future__ import annotations

import torch
from torch.nn import parameter

from course_lib.accelerators.vgpu.tensors import VirtualTensor, swap

_Lazy = parameter.UninitializedTensorMixin
_materialize = _Lazy.materialize


def move_lazy_modules() -> None:
    """Let lazy parameters and buffers become tensors of virtual GPUs."""
    _Lazy.to, _Lazy.materialize = _to, materialize
    _Lazy._allowed_methods += [torch.Tensor.to, torch.Tensor.vgpu]  # both are new
    for kind, grad in (
        (parameter.UninitializedParameter, True),
        (parameter.UninitializedBuffer, False),
    ):
        kind.__new__ = staticmethod(_made(kind.__new__, grad))


def _made(original, grad):
    # the names and their order are PyTorch's
    def new(cls, requires_grad=grad, device=None, dtype=None, **rest):
        target = torch.empty(0, device=device).device
        virtual = target.type == "vgpu"
        device = "cpu" if virtual else device
        lazy = original(cls, requires_grad, device, dtype, **rest)
        lazy.target = target if virtual else None
        return lazy

    return new


def _to(lazy, *args, **kwargs):
    """`lazy.to(device)`: a virtual GPU is noted, there is nothing to move yet."""
    moved = torch.empty(0, dtype=lazy.data.dtype).to(*args, **kwargs)
    virtual = type(moved) is VirtualTensor
    plain = torch.Tensor.to
    new = plain(lazy, moved.dtype) if virtual else plain(lazy, *args, **kwargs)
    new.target = lazy.target = moved.device if virtual else None
    return new


def materialize(lazy, shape, device=None, dtype=None) -> None:
    """Become a tensor of this shape on the device that was noted, or on another."""
    target = torch.device(device or lazy.target or lazy.data.device)
    if target.type != "vgpu":
        return _materialize(lazy, shape, target, dtype)
    new = torch.empty(shape, device=target, dtype=dtype or lazy.data.dtype)
    if lazy.cls_to_become is torch.nn.Parameter:
        new = torch.nn.Parameter(new, lazy.requires_grad)
    swap(lazy, new)
