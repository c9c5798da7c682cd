"""What would end the process on virtual GPUs, refused by a sentence instead."""

from __future__ import annotations

import functools
import os
import threading

import torch

from course_lib.accelerators.vgpu.tensors import VirtualTensor
from course_lib.accelerators.virtual import machine


def refuse_what_crashes() -> None:
    """Refuse memory without a tensor, and the devices of a parent process."""
    torch.UntypedStorage.__new__ = _storage
    for owner, name in (
        (torch.UntypedStorage, "byteswap"),
        (torch.utils.dlpack, "to_dlpack"),
        (torch, "to_dlpack"),
    ):
        setattr(owner, name, _refused_on_devices(getattr(owner, name)))
    os.register_at_fork(after_in_child=_in_child)


def _storage(cls, *args, device=None, **options):
    # PyTorch would ask for an allocator of this type of device, and there is none
    if device is not None and torch.device(device).type == "vgpu":
        raise NotImplementedError(_NO_MEMORY)
    return torch._C.StorageBase.__new__(cls, *args, device=device, **options)


def _refused_on_devices(function):
    @functools.wraps(function)
    def wrapped(first, *args):
        if first.device.type == "vgpu":
            raise NotImplementedError(_NO_MEMORY)
        return function(first, *args)

    return wrapped


_NO_MEMORY = (
    "the memory of a virtual GPU cannot be had without a tensor: make one there, as in"
    " torch.empty(count, dtype=torch.uint8, device=device), or copy to the CPU first."
)


def _in_child():
    """In a forked process: its parent's devices are refused, as on CUDA."""
    machine.lock = threading.RLock()  # another thread may have held it
    machine.forked = machine.count > 0
    run = VirtualTensor.run

    def refused(func, args, kwargs):
        machine.place(None)  # raises, unless this process has made devices of its own
        return run(func, args, kwargs)

    VirtualTensor.run = staticmethod(refused)
