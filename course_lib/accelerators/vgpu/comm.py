"""Copies of nn.DataParallel between virtual GPUs, which PyTorch has for CUDA only.

Each takes and returns what the function of its name in `torch.nn.parallel.comm` does:
https://docs.pytorch.org/docs/stable/cuda.html#communication-collectives

As there, broadcast and reduce are NCCL's wherever it takes the tensors, which is in a
ring for these two (`ncclTopoTuneModel` in its tuning.cc); else a device copies to, or
from, one after the other. Scatter and gather are copies in any case:
https://github.com/pytorch/pytorch/blob/main/torch/csrc/cuda/comm.cpp
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from contextlib import contextmanager

import torch
from torch import _utils
from torch.nn.parallel import comm

from course_lib.accelerators.vgpu.tensors import VirtualTensor, new_tensor
from course_lib.accelerators.virtual import machine

_BUFFER = 10 * 2**20  # bytes, as on CUDA: small tensors travel together


def replace_copies() -> None:
    """Let `torch.nn.parallel` use these for tensors that are on virtual GPUs."""
    for name, own in (
        ("broadcast", _broadcast),
        ("broadcast_coalesced", _broadcast_coalesced),
        ("reduce_add", _reduce_add),
        ("scatter", _scatter),
        ("gather", _gather),
    ):
        setattr(comm, name, _either(getattr(comm, name), own, name.partition("_")[0]))
    # the module; its name in the package is that of its function
    module = sys.modules["torch.nn.parallel.parallel_apply"]
    module.threading = types.SimpleNamespace(Thread=_InTurn, Lock=threading.Lock)


class _InTurn(threading.Thread):
    """A replica's thread. Virtual GPUs let the next one start when it has ended.

    Threads launch one at a time anyway, for they share the interpreter; in turn, they
    do so in the same order in every run, and modelled times stay the same.
    """

    def start(self):
        super().start()
        if machine.count:
            self.join()


def _either(original, own, label):
    """PyTorch's function, or our own for virtual GPUs, its copies called `label`."""

    @functools.wraps(original)
    def chosen(tensors, *args, **kwargs):
        first = tensors
        while isinstance(first, list | tuple) and first:
            first = first[0]
        kind = getattr(getattr(first, "device", None), "type", "")
        # a batch on the CPU is scattered to the devices that there are
        virtual = kind == "vgpu" or kind == "cpu" and own is _scatter and machine.count
        with _called(label):
            return (own if virtual else original)(tensors, *args, **kwargs)

    return chosen


@contextmanager
def _called(label):
    """Let the copies in the block be called `label` in traces."""
    before, machine.copying = machine.copying, label
    try:
        yield
    finally:
        machine.copying = before


def _device(index):
    if isinstance(index, torch.device | str):
        return torch.device(index)
    if index == -1:
        return torch.device("cpu")
    return torch.device("vgpu", machine.place(index).index)


def _is_nccls(tensors, devices):
    """Whether NCCL takes these; PyTorch asks it as `torch.cuda.nccl.is_available`."""
    plain = all(type(t) is VirtualTensor and t.is_contiguous() for t in tensors)
    return machine.nccl and plain and 1 < len(devices) == len(set(devices))


def _hand_on(tensor, chain):
    """Charge the devices for a tensor that each hands on to the next."""
    indices = [device.index for device in chain]
    machine.clock.hand_on(indices, bytes=tensor.nbytes, name=machine.copying)


def _broadcast(tensor, devices):
    places = [_device(index) for index in devices]
    if places[:1] != [tensor.device] or not _is_nccls([tensor], places):
        return tuple(tensor.to(place) for place in places)
    with machine.lock:
        _hand_on(tensor, places)
        return tensor, *(_put(tensor.elem.clone(), place) for place in places[1:])


def _put(elem, device):
    return new_tensor(elem, machine.place(device.index))


def _broadcast_coalesced(tensors, devices, buffer_size=_BUFFER):
    copies = [{} for _ in devices]
    for bucket in _utils._take_tensors(tensors, buffer_size):
        flat = _utils._flatten_dense_tensors(bucket) if len(bucket) > 1 else bucket[0]
        for own, whole in zip(copies, _broadcast(flat, devices), strict=True):
            moved = bucket if whole.device == flat.device else [whole]
            if len(moved) < len(bucket):
                moved = _utils._unflatten_dense_tensors(whole, bucket)
            own |= {id(tensor): copy for tensor, copy in zip(bucket, moved)}
    return [[own[id(tensor)] for tensor in tensors] for own in copies]


def _reduce_add(inputs, destination=None):
    target = _device(destination)
    places = [tensor.device for tensor in inputs]
    if target in places and _is_nccls(inputs, places):
        return _reduce(inputs, places, root=places.index(target))
    return _add_one_by_one(inputs, target)


def _reduce(inputs, places, *, root):
    """Add up along the ring, as NCCL does: the root comes last, and sends nothing."""
    order = [(root + 1 + step) % len(places) for step in range(len(places))]
    with machine.lock:
        _hand_on(inputs[root], [places[i] for i in order])
        total = inputs[order[0]].elem
        for i in order[1:]:
            total = total + inputs[i].elem
        return _put(total, places[root])


def _add_one_by_one(inputs, target):
    first, *others = sorted(inputs, key=lambda tensor: tensor.device != target)
    if not others:
        return first.to(target)
    total = first.to(target) + others[0].to(target)
    for other in others[1:]:
        total.add_(other.to(target))
    return total


def _scatter(tensor, devices, chunk_sizes=None, dim=0, streams=None):
    count = len(devices)
    parts = tensor.split(chunk_sizes, dim) if chunk_sizes else tensor.chunk(count, dim)
    return tuple(part.to(_device(index)) for part, index in zip(parts, devices))


def _gather(tensors, dim=0, destination=None):
    target = _device(destination)
    return torch.cat([tensor.to(target) for tensor in tensors], dim)
