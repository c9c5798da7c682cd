"""Tensors that begin on a virtual GPU: factories, copies of PyTorch's own, files."""

from __future__ import annotations

import math
from functools import partial, wraps

import torch

from course_lib.accelerators.vgpu.operators import CPU, aten, place_of, run_operator
from course_lib.accelerators.vgpu.tensors import new_tensor, raise_out_of_memory
from course_lib.accelerators.virtual import machine


def empty(size, *, dtype=None, device=None, memory_format=None, **_):
    """Make memory without numbers, asked for before the CPU's is touched."""
    rest = {} if memory_format is None else {"memory_format": memory_format}
    return _new(partial(torch.empty, size, **rest), size, dtype=dtype, device=device)


def empty_strided(size, stride, *, dtype=None, device=None, **_):
    """Make the same with strides."""
    make = partial(torch.empty_strided, size, stride)
    return _new(make, size, dtype=dtype, device=device)


def _new(make, size, *, dtype, device):
    place, dtype = place_of(device), dtype or torch.get_default_dtype()
    count = dtype.itemsize * math.prod(size)
    with machine.lock:
        if not machine.fits(place, count):
            raise_out_of_memory(place, count)
    elem = make(dtype=dtype, device=CPU)
    with machine.lock:
        return new_tensor(elem, place)


def copy_from(source, target, non_blocking=False):
    """Make a copy that PyTorch asks for, as in `torch.tensor(..., device=...)`."""
    run_operator(aten.copy_.default, (target, source, non_blocking), {})
    return target


def factory(func, *args, **kwargs):
    """Run any other operator that is asked for a tensor on a virtual GPU."""
    return run_operator(func, args, kwargs)


class _Storage(torch.UntypedStorage):
    """A storage that torch.load has read, on its way to a virtual GPU."""

    @property
    def device(self):
        """Return the device on which the tensor will be."""
        return self.target


def load_storage(storage, location):
    """Do what torch.load does with `map_location="vgpu:1"`."""
    if not location.startswith("vgpu"):
        return None
    moved = _Storage(storage.nbytes())
    moved.copy_(storage)
    moved.target = torch.device("vgpu", place_of(location).index)
    return moved


def restoring(original):
    """Tell where torch.load puts a tensor that was saved on a virtual GPU."""

    @wraps(original)
    def location(device):
        place = torch.serialization._serialization_tls.map_location
        if not callable(place):
            return original(device)
        # it is asked as for a storage: what comes back says where, None says as saved
        moved = place(torch.UntypedStorage(0), str(device))
        return device if moved is None else moved.device

    return location
