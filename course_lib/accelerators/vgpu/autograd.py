"""Backward passes with virtual GPUs, and what is raised in them."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import traceback
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from course_lib.accelerators.vgpu.operators import aten, run_operator
from course_lib.accelerators.vgpu.tensors import VirtualTensor, wrap


class _Raised(threading.local):
    """What was raised in a backward of this thread, taken from Python's C interface."""

    error = None


_raised = _Raised()
# the guard of one thread must not take what that of another has fetched
_one_backward = threading.RLock()
os.register_at_fork(after_in_child=_one_backward._at_fork_reinit)
_ends = tuple(ctypes.c_void_p() for _ in range(3))  # type, value, traceback
_fetch = ctypes.PyDLL(None).PyErr_Fetch
_fetch.restype = None
_type_end, _value_end, _trace_end = map(ctypes.byref, _ends)
_DEVICE_TYPE = torch._C._autograd.DeviceType.PrivateUse1


class Guard(torch._C._acc.DeviceGuard):
    """The guard that the engine asks for streams; it asks while an error is raised."""

    def type_(self):
        """Return the type of device that is guarded."""
        # any other call with an error set would end the process: take it off first,
        # for the engine to fail in its own words, and for us to raise it at the end
        _fetch(_type_end, _value_end, _trace_end)
        if _ends[0]:
            _raised.error = _taken()
        return _DEVICE_TYPE


def _taken():
    """Return the error that was fetched, as Python would have raised it."""
    fetched: Any = (
        ctypes.cast(end, ctypes.py_object).value if end else None for end in _ends
    )
    kind, value, trace = fetched
    for end in filter(None, _ends):
        ctypes.pythonapi.Py_DecRef(ctypes.cast(end, ctypes.py_object))
    if not isinstance(value, kind):
        value = kind() if value is None else kind(value)
    return value.with_traceback(trace)


def single_threaded(backward):
    """Run a backward in the calling thread: the engine's serves one device."""

    @functools.wraps(backward)
    def wrapped(*args, **kwargs):
        with _one_backward:
            _raised.error = None
            _refuse_elsewhere(*args[:2])
            try:
                with torch.autograd.set_multithreading_enabled(False):
                    return backward(*args, **kwargs)
            except BaseException as failure:
                if _raised.error is None:
                    if _NO_STREAM in str(failure):
                        raise RuntimeError(_ELSEWHERE) from None
                    raise
                # its frames hold the loss, and are not in the traceback of our error
                traceback.clear_frames(failure.__traceback__)
            error, _raised.error = _raised.error, None
        try:
            raise error
        finally:
            # else the error would hold this frame, and this frame the error
            del error

    return wrapped


def _refuse_elsewhere(outputs, gradients):
    """Raise what the engine says of plain tensors: it does not check a subclass."""
    for index, (output, gradient) in enumerate(zip(outputs, gradients)):
        given = getattr(gradient, "device", None)
        asked = getattr(output, "device", given)  # a GradientEdge has none
        if given != asked and gradient is not None and gradient.dim():
            raise RuntimeError(
                f"invalid gradient at index {index} - expected device {asked} but got"
                f" {given}"
            )


# what the engine says where a gradient of another device reaches an operator
_NO_STREAM = "opt_ready_stream && opt_parent_stream"
_ELSEWHERE = (
    "invalid gradient: it is on another device than the tensor that it belongs to. Give"
    " backward gradients on the devices of its outputs, and let each backward of a"
    " torch.autograd.Function return them on the devices of the inputs."
)


class NoChange(VirtualTensor):
    """The tangent of what does not change: PyTorch leaves it out of sums and products.

    The CPU's own tensor of this kind has no memory, and an operator that is called from
    Python reads it all the same, which ends the process. This one holds zeros.
    """

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """Run one operator on the zeros; a view of them does not change either."""
        args, kwargs = tree_map_only(cls, _zeros, (args, kwargs or {}))
        out = cls.run(func, args, kwargs)
        return tree_map_only(VirtualTensor, _unchanging, out) if func.is_view else out


def _zeros(tensor):
    return wrap(tensor.elem, tensor.block)


def _unchanging(zeros):
    tensor = torch.Tensor._make_wrapper_subclass(
        NoChange,
        zeros.size(),
        zeros.stride(),
        zeros.storage_offset(),
        dtype=zeros.dtype,
        device=zeros.device,
        _extra_dispatch_keys=torch._C.DispatchKeySet(torch._C.DispatchKey.ZeroTensor),
    )
    tensor.elem, tensor.block = zeros.elem, zeros.block
    return tensor


def _tangent(func, args, kwargs):
    return _unchanging(run_operator(aten.zeros.default, args, kwargs))


SPECIAL_CASES = {aten._efficientzerotensor: _tangent}
