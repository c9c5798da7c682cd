"""Operators that cross devices, as `x.to(device)`, or that read numbers of one."""

from __future__ import annotations

import torch

from course_lib.accelerators.clock import HOST
from course_lib.accelerators.vgpu import pinning
from course_lib.accelerators.vgpu.operators import (
    CPU,
    TRAITS,
    charge,
    place_of,
    run_operator,
)
from course_lib.accelerators.vgpu.tensors import VirtualTensor, new_tensor
from course_lib.accelerators.virtual import machine

aten = torch.ops.aten


def _convert(func, args, kwargs):
    """`x.to(device or dtype)`: the one operator that makes tensors elsewhere."""
    given = args[0]
    source = given.block.place
    device = kwargs.get("device")
    target = source if device is None else place_of(device)
    rest = {**kwargs, "device": CPU if target or device is None else device}
    out = func(given.elem, *args[1:], **rest)
    if target is None and torch.device(device).type != "cpu":
        return out
    result = out if target is None else new_tensor(out, target)
    # as on CUDA: what is to arrive later arrives in pinned memory
    later = target is None and kwargs.get("non_blocking")
    with machine.lock:
        if target is source:
            charge(TRAITS[func], source, done=(args, kwargs, out), operands=[given])
        else:
            _move(source, target, out.nbytes, waits=not later)
    return pinning.mark_pinned(result) if later else result


def _copy(func, args, kwargs):
    """`x.copy_(y)`: the one operator that writes across devices."""
    given, new = args[:2]
    to, of = (getattr(t, "elem", t) for t in (given, new))
    func(to, of, *args[2:], **kwargs)
    places = [t.block.place if type(t) is VirtualTensor else None for t in (new, given)]
    with machine.lock:
        if places[0] is places[1]:
            charge(TRAITS[func], places[0], done=(args, kwargs, to), operands=[new])
        else:
            later = (args[2:] or [kwargs.get("non_blocking")])[0]
            host = new if places[0] is None else given
            later = later and None in places and pinning.is_pinned(host)
            _move(*places, to.nbytes, waits=not later)
    return given


def _move(source, target, bytes, *, waits=True):
    """Charge the devices, or the host and a device, for a copy."""
    ends = (HOST if place is None else place.index for place in (source, target))
    machine.clock.copy(*ends, bytes=bytes, name=machine.copying, wait=waits)


def _read(func, args, kwargs):
    """`x.item()`: the host waits for the device."""
    place = args[0].block.place
    with machine.lock:
        _move(place, None, args[0].elem.nbytes)
    return func(args[0].elem)


def _conj(func, args, kwargs):
    # a copy and no view: the bit that PyTorch keeps for a lazy conjugate is not kept
    return run_operator(aten.conj_physical.default, args, kwargs)


def _neg(func, args, kwargs):
    return run_operator(aten.neg.default, args, kwargs)


CROSSINGS = {
    aten._conj: _conj,
    aten._neg_view: _neg,
    aten._to_copy: _convert,
    aten.copy_: _copy,
    aten._local_scalar_dense: _read,
    aten._pin_memory: pinning.refuse_pinning,
}
