"""Virtual GPUs: tensors on "vgpu:1", whose numbers are in the memory of the CPU.

All that leans on experimental or private parts of PyTorch is in this module. A tensor
of a virtual GPU wraps one of the CPU. Each operator runs on what is wrapped, which
gives the numbers of the CPU, and is charged to the device's memory and modelled time.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
import traceback
from collections import OrderedDict

import torch
from torch.optim.optimizer import (
    _foreach_supported_types,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.backend_registration import (
    _setup_privateuseone_for_python_backend as register,
)

from course_lib import vgpu_api, vgpu_comm
from course_lib.clock import HOST
from course_lib.cost import flops_of
from course_lib.ledger import Lease
from course_lib.regions import Region
from course_lib.virtual import Place, binary, machine, shortage

aten = torch.ops.aten
CPU = torch.device("cpu")
_make = torch.Tensor._make_wrapper_subclass


class Block:
    """One storage on a device: frees its bytes when the last tensor of it dies."""

    __slots__ = ("device", "key", "lease", "place")

    def __init__(self, place: Place, lease: Lease, key: int):
        self.place, self.lease, self.key = place, lease, key
        self.device = torch.device("vgpu", place.index)

    def __del__(self):
        self.lease.freed = machine.clock.host
        self.place.account.returned.append(self.lease)


class VirtualTensor(torch.Tensor):
    """A tensor on a virtual GPU: `elem` is its data on the CPU, `block` its memory."""

    # as for torch.Tensor itself: nothing happens above the dispatcher
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):  # noqa: PLR0917
        """Run one operator."""
        return run(func, args, kwargs or {})

    @property
    def _is_param(self):
        return self.__dict__.get("param", False)

    @_is_param.setter
    def _is_param(self, yes):
        self.__dict__["param"] = yes
        self.block.lease.kind = "parameters"

    def record_stream(self, stream):
        """Nothing to do: a virtual GPU has one stream."""

    def __repr__(self, *, tensor_contents=None):
        """The numbers and the device, as PyTorch prints them."""
        machine.clock.wait(self.block.place.index)
        module = torch._tensor_str
        head = "Parameter containing:\n" if self._is_param else ""
        with torch.no_grad():
            numbers = module._tensor_str(self.elem, len("tensor("))
        text = module._str_intern(self, tensor_contents=numbers)
        if self._is_param:
            text = text.removeprefix("Parameter(")[:-1]
        return head + text.replace(type(self).__name__, "tensor", 1)

    def __format__(self, spec):
        return self.item().__format__(spec) if self.dim() == 0 else repr(self)

    def tolist(self):
        """The numbers as lists of Python's own."""
        return self.cpu().tolist()

    def numpy(self, **_):
        """Refused as on CUDA."""
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu()"
            " to copy the tensor to host memory first."
        )

    def __array__(self, *_, **__):
        return self.numpy()

    def __reduce_ex__(self, protocol):
        """Travel as a tensor of the CPU that is put back on the device."""
        if self._is_param:
            made = self.detach(), self.requires_grad, OrderedDict()
            return torch._utils._rebuild_parameter, made
        data = (self.elem, self.dtype, str(self.device), self.requires_grad)
        return torch._utils._rebuild_device_tensor_from_cpu_tensor, data

    def __deepcopy__(self, memo):
        """A copy on the same device, with its gradient."""
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            return super().__deepcopy__(memo)
        with torch.no_grad():
            copy = self.clone()
        if self._is_param:
            copy = torch.nn.Parameter(copy, self.requires_grad)
        copy.requires_grad_(self.requires_grad)
        if self.grad is not None:
            copy.grad = self.grad.__deepcopy__(memo)
        memo[id(self)] = copy
        return copy


# --- one operator


class Plan:
    """What is to be known of an operator before it runs; found once."""

    __slots__ = ("flops", "free", "mixes", "picks", "reshapes", "special", "waits")

    def __init__(self, func):
        packet, tags = func.overloadpacket, func.tags
        name = packet.__name__
        self.special = _SPECIAL.get(packet)
        if self.special is None and _composite(func):
            self.special = _decomposed
        self.flops = flops_of(func)
        relabels = torch.Tag.inplace_view in tags or name in _RESHAPE
        self.free = relabels or "empty" in name
        written = (a for a in func._schema.arguments if a.alias_info is not None)
        outs = any(a.kwarg_only and a.alias_info.is_write for a in written)
        self.reshapes = relabels or outs
        # these take indices or lengths from the CPU on CUDA, too
        self.mixes = name in _MIXES
        self.picks = name in _PICKS
        dynamic = torch.Tag.dynamic_output_shape in tags
        self.waits = dynamic or torch.Tag.data_dependent_output in tags


_PLANS: dict = {}
_RESHAPE = {"resize_", "resize_as_", "set_", "_resize_output_"}
_MIXES = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
_MIXES |= {"_pack_padded_sequence", "tensor_split", "_ctc_loss"}
_PICKS = {"embedding", "index", "index_select", "gather", "_unsafe_index"}
_PLAIN = {int, float, bool, type(None), torch.dtype}


def run(func, args, kwargs):
    """Run one operator on the CPU's tensors and charge the device for it."""
    plan = _PLANS.get(func) or _PLANS.setdefault(func, Plan(func))
    if plan.special is not None:
        return plan.special(func, args, kwargs)
    found, strange, inner = [], [], []
    for value in args:
        kind = type(value)
        if kind is VirtualTensor:
            found.append(value)
            inner.append(value.elem)
        else:
            inner.append(value if kind in _PLAIN else _open(value, found, strange))
    place = found[0].block.place if found else None
    named = kwargs
    if kwargs:
        named = {key: _open(value, found, strange) for key, value in kwargs.items()}
        place = _elsewhere(named, found, place)
    if len(found) > 1 or strange:
        _refuse_mixture(func, plan, found=found, strange=strange)
    call = func
    if found and found[0].dtype.is_complex:
        call = functools.partial(_with_lazy_bits, func)
    try:
        out = call(*inner, **named)
    except NotImplementedError as error:
        raise _unknown(func, error) from None
    if place is None:
        return out
    with machine.lock:
        result, works = _kept(out, place, found=found, plan=plan)
        if works and not plan.free:
            _charge(plan, place, done=(inner, named, out), found=found)
    if plan.waits:
        machine.clock.wait(place.index)
    return result


def _with_lazy_bits(func, /, *args, **kwargs):
    # a dispatch from Python leaves these out; operators that conjugate inside need them
    keys = torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative
    with contextlib.ExitStack() as stack:
        for key in keys:
            stack.enter_context(torch._C._SetExcludeDispatchKeyGuard(key, False))
        return func(*args, **kwargs)


def _unknown(func, error):
    """What to say of an operator that the CPU does not have, such as CUDA's own."""
    if "CPU" not in str(error):
        return error
    name = func.overloadpacket.__name__
    return NotImplementedError(
        f"virtual GPUs do not have the operator {name}, since the CPU has none: use"
        " .cpu() for this part of the model."
    )


def _elsewhere(named, found, place):
    """The device that a factory is asked for; the CPU shall make the numbers."""
    if "device" not in named:
        return found[0].block.place if found else place
    device, named["device"] = named["device"], CPU
    return place if device is None else _place(device)


def _open(value, found, strange):
    """What the CPU works on instead of `value`; tensors are noted by where they are."""
    kind = type(value)
    if kind is VirtualTensor:
        found.append(value)
        return value.elem
    if kind is list or kind is tuple:
        return kind([_open(each, found, strange) for each in value])
    if isinstance(value, torch.Tensor) and value.dim():
        strange.append(value)
    return value


def _refuse_mixture(func, plan, *, found, strange):
    place = found[0].block.place
    for tensor in found:
        if tensor.block.place is not place:
            break
    else:
        if plan.mixes or not strange:
            return
        tensor = strange[0]
    name = func.overloadpacket.__name__
    raise RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices,"
        f" {place.name} and {tensor.device}! (when checking arguments in method"
        f" wrapper_vgpu_{name})"
    )


def _kept(out, place, *, found, plan):
    """The results as tensors of the device, and whether something was computed."""
    kind = type(out)
    if kind is torch.Tensor:
        for tensor in found:
            if tensor.elem is out:
                if plan.reshapes:
                    _relabel(tensor)
                return tensor, True
        storage = _storage(out)
        key = storage._cdata
        for tensor in found:
            if tensor.block.key == key:
                return _tensor(out, tensor.block), False
        return _tensor(out, _block(storage, place)), True
    if kind is tuple or kind is list:
        return _all_kept(out, place, (found, plan))
    return out, True


def _all_kept(out, place, given):
    """Several results; they may share memory with what was given and each other."""
    found, plan = given
    same = {id(tensor.elem): tensor for tensor in found}
    blocks = {tensor.block.key: tensor.block for tensor in found}
    results, works = [], False
    for each in out:
        if id(each) in same:
            each, works = same[id(each)], True
            if plan.reshapes:
                _relabel(each)
        elif isinstance(each, torch.Tensor):
            storage = _storage(each)
            key = storage._cdata
            if key not in blocks:
                blocks[key], works = _block(storage, place), True
            each = _tensor(each, blocks[key])
        elif type(each) in (list, tuple):
            each, more = _all_kept(each, place, given)
            works = works or more
        results.append(each)
    return type(out)(results), works


def _tensor(elem, block):
    """A tensor of a virtual GPU around one of the CPU."""
    made = _make(
        VirtualTensor,
        elem.size(),
        elem.stride(),
        elem.storage_offset(),
        None,
        elem.dtype,
        elem.layout,
        block.device,
    )
    made.elem, made.block = elem, block
    return made


def _storage(elem):
    """The memory of a tensor of the CPU."""
    try:
        return elem.untyped_storage()
    except NotImplementedError:
        raise NotImplementedError(
            f"virtual GPUs hold dense tensors only: keep {elem.layout} on the CPU."
        ) from None


def _block(storage, place):
    """New memory on the device for a storage of the CPU."""
    return Block(place, _lease(place, storage.nbytes()), storage._cdata)


def _lease(place, count):
    return machine.take(place, count) or _refuse(place, count)


def _refuse(place, count):
    if _steps:
        _mark_state(_steps[0])
    raise torch.OutOfMemoryError(shortage(place, count) + _too_large(place))


def _too_large(place):
    """How many devices the model needs that is being moved; "" if it could fit."""
    frame, model = sys._getframe(), None
    while frame is not None:
        if frame.f_code is torch.nn.Module._apply.__code__:
            model = frame.f_locals["self"]
        frame = frame.f_back
    if model is None:
        return ""
    tensors = [*model.parameters(), *model.buffers()]
    total, most = sum(t.nbytes for t in tensors), place.account.capacity
    if total <= most:
        return ""
    return (
        f" This model cannot fit: its parameters take {binary(total)}, so they alone"
        f" need {-(-total // most)} devices of {binary(most)}."
    )


def _relabel(tensor):
    """Give a tensor the shape and the memory that its data has got."""
    elem, block = tensor.elem, tensor.block
    storage = elem.untyped_storage()
    if storage._cdata != block.key or storage.nbytes() != block.lease.bytes:
        tensor.block = _block(storage, block.place)
    if tensor.shape == elem.shape and tensor.stride() == elem.stride():
        return
    source = torch.Tensor.untyped_storage(tensor)
    meta = torch._C._meta_in_tls_dispatch_include()
    torch._C._set_meta_in_tls_dispatch_include(True)
    try:
        with torch.utils._mode_utils.no_dispatch():
            shape = elem.storage_offset(), elem.size(), elem.stride()
            aten.set_.source_Storage_storage_offset(tensor, source, *shape)
    finally:
        torch._C._set_meta_in_tls_dispatch_include(meta)


def _charge(plan, place, *, done, found):
    """Let the device work on an operator that is done, as long as it would take."""
    inner, named, out = done
    first, bytes = out, 0
    if type(out) is torch.Tensor:
        bytes = out.nbytes
    elif type(out) is tuple or type(out) is list:
        first = out[0] if out else None
        bytes = sum(each.nbytes for each in out if type(each) is torch.Tensor)
    if plan.picks:
        bytes *= 2
    else:
        for tensor in found:
            bytes += tensor.elem.nbytes
    seconds = bytes / place.bandwidth
    if plan.flops is not None:
        dtype = first.dtype if type(first) is torch.Tensor else found[0].dtype
        peak = place.peaks.get(_NAMES.get(dtype)) or place.peaks["float32"]
        seconds = max(seconds, plan.flops(inner, named, out) / peak)
    machine.clock.operate(place.index, seconds)


_NAMES = {getattr(torch, n): n for n in ("float64", "float32", "float16", "bfloat16")}


# --- operators that are not one kernel on one device


def _composite(func):
    """Whether the CPU only has the operator as a sequence of others."""
    return func._can_decompose() and not func.has_kernel_for_dispatch_key(
        torch._C.DispatchKey.CPU
    )


def _decomposed(func, args, kwargs):
    # only in inference mode: autograd takes these apart by itself
    return func.decompose(*args, **kwargs)


def _place(device):
    """The virtual GPU that a device names; None for one that is none."""
    device = torch.device(device)
    return machine.place(device.index) if device.type == "vgpu" else None


def _convert(func, args, kwargs):
    """`x.to(device or dtype)`: the one operator that makes tensors elsewhere."""
    given = args[0]
    source = given.block.place
    device = kwargs.get("device")
    target = source if device is None else _place(device)
    rest = {**kwargs, "device": CPU if target or device is None else device}
    out = func(given.elem, *args[1:], **rest)
    if target is None and torch.device(device).type != "cpu":
        return out
    result = out if target is None else _tensor(out, _block(_storage(out), target))
    with machine.lock:
        if target is source:
            _charge(_PLANS[func], source, done=(args, kwargs, out), found=[given])
        else:
            _move(source, target, out.nbytes)
    return result


def _copy(func, args, kwargs):
    """`x.copy_(y)`: the one operator that writes across devices."""
    given, new = args[:2]
    to, of = (getattr(t, "elem", t) for t in (given, new))
    func(to, of, *args[2:], **kwargs)
    places = [t.block.place if type(t) is VirtualTensor else None for t in (new, given)]
    with machine.lock:
        if places[0] is places[1]:
            _charge(_PLANS[func], places[0], done=(args, kwargs, to), found=[new])
        else:
            pinned = places[0] is None and new.is_pinned()
            waits = not (pinned and (args[2:] or [kwargs.get("non_blocking")])[0])
            _move(*places, to.nbytes, waits=waits)
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
    return run(aten.conj_physical.default, args, kwargs)


def _neg(func, args, kwargs):
    return run(aten.neg.default, args, kwargs)


_SPECIAL = {
    aten._conj: _conj,
    aten._neg_view: _neg,
    aten._to_copy: _convert,
    aten.copy_: _copy,
    aten._local_scalar_dense: _read,
}


def _empty(size, *, dtype=None, device=None, memory_format=None, **_):
    """Memory without numbers, asked for before the CPU's is touched."""
    place = _place(device)
    dtype = dtype or torch.get_default_dtype()
    _fits(place, size, dtype)
    rest = {} if memory_format is None else {"memory_format": memory_format}
    return _new(torch.empty(size, dtype=dtype, device=CPU, **rest), place)


def _empty_strided(size, stride, *, dtype=None, device=None, **_):
    place = _place(device)
    dtype = dtype or torch.get_default_dtype()
    _fits(place, size, dtype)
    return _new(torch.empty_strided(size, stride, dtype=dtype, device=CPU), place)


def _fits(place, size, dtype):
    """Refuse what does not fit before the memory of the CPU is asked for it."""
    count = dtype.itemsize
    for length in size:
        count *= length
    with machine.lock:
        if not machine.fits(place, count):
            _refuse(place, count)


def _new(elem, place):
    with machine.lock:
        return _tensor(elem, _block(_storage(elem), place))


def _copy_from(source, target, non_blocking=False):
    """A copy that PyTorch makes by itself, as in `torch.tensor(..., device=...)`."""
    _copy(aten.copy_.default, (target, source, non_blocking), {})
    return target


def _factory(func, *args, **kwargs):
    """Any other operator that is asked for a tensor on a virtual GPU."""
    return run(func, args, kwargs)


# --- what PyTorch asks of a backend


def _get_data(tensor):
    """The tensor without its history, as torch.Tensor.data."""
    return _DATA.__get__(tensor)


def _set_data(tensor, new):
    """Take over the numbers and the device of another tensor: `module.to` does this."""
    if type(tensor) is type(new) is VirtualTensor:
        _DATA.__set__(tensor, new)
        tensor.elem, tensor.block = new.elem, new.block
        if tensor._is_param:
            tensor._is_param = True  # its new memory is that of a parameter
    elif VirtualTensor in (type(tensor), type(new)):
        _swap(tensor, torch.nn.Parameter(new, tensor.requires_grad))
    else:
        _DATA.__set__(tensor, new)


def _swap(parameter, new):
    # as torch.utils.swap_tensors, which refuses while a graph or a weak reference is
    # alive; an optimizer made before module.to must keep its parameters
    for name in ("__class__", "__dict__"):
        own = getattr(parameter, name)
        setattr(parameter, name, getattr(new, name))
        setattr(new, name, own)
    torch._C._swap_tensor_impl(parameter, new)


def _compatible(original):
    """Let `module.to` keep its parameters when they change between CPU and vgpu."""

    @functools.wraps(original)
    def wrapped(tensor, new):
        if VirtualTensor in (type(tensor), type(new)) and type(tensor) is not type(new):
            return isinstance(tensor, torch.nn.Parameter)
        return original(tensor, new)

    return wrapped


_DATA = torch._C.TensorBase.data


class _Raised(threading.local):
    """What was raised in a backward of this thread, taken from Python's C interface."""

    error = None


_raised = _Raised()
# the guard of one thread must not take what that of another has fetched
_one_backward = threading.RLock()
_ends = tuple(ctypes.c_void_p() for _ in range(3))  # type, value, traceback
_fetch = ctypes.PyDLL(None).PyErr_Fetch
_fetch.restype = None
_type_end, _value_end, _trace_end = map(ctypes.byref, _ends)
_DEVICE_TYPE = torch._C._autograd.DeviceType.PrivateUse1


class _Guard(torch._C._acc.DeviceGuard):
    """The guard that the engine asks for streams; it asks while an error is raised."""

    def type_(self):
        # any other call with an error set would end the process: take it off first,
        # for the engine to fail in its own words, and for us to raise it at the end
        _fetch(_type_end, _value_end, _trace_end)
        if _ends[0]:
            _raised.error = _taken()
        return _DEVICE_TYPE


def _taken():
    """The error that was fetched, as Python would have raised it."""
    kind, value, trace = (
        ctypes.cast(end, ctypes.py_object).value if end else None for end in _ends
    )
    for end in filter(None, _ends):
        ctypes.pythonapi.Py_DecRef(ctypes.cast(end, ctypes.py_object))
    if not isinstance(value, kind):
        value = kind() if value is None else kind(value)
    return value.with_traceback(trace)


def _single_threaded(backward):
    """A backward in the calling thread: the engine has a thread for one device only."""

    @functools.wraps(backward)
    def wrapped(*args, **kwargs):
        with _one_backward:
            _raised.error = None
            try:
                with torch.autograd.set_multithreading_enabled(False):
                    return backward(*args, **kwargs)
            except BaseException as failure:
                if _raised.error is None:
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


class _Storage(torch.UntypedStorage):
    """A storage that torch.load has read, on its way to a virtual GPU."""

    @property
    def device(self):
        """The device on which the tensor will be."""
        return self.target


def _load(storage, location):
    """What torch.load does with `map_location="vgpu:1"`."""
    if not location.startswith("vgpu"):
        return None
    moved = _Storage(storage.nbytes())
    moved.copy_(storage)
    moved.target = torch.device("vgpu", _place(location).index)
    return moved


def _serve_accelerator():
    """Let nn.DataParallel ask `torch.accelerator` for streams and current devices."""
    for name, own in (
        ("current_stream", vgpu_api.Stream),
        ("device_index", vgpu_api.device),
        ("device_count", lambda: machine.count),
        ("current_device_index", lambda: machine.place(None).index),
    ):
        setattr(torch.accelerator, name, own)
    torch.nn.parallel._functions._get_stream = lambda device: None
    # a machine with one GPU has virtual ones beside it: these are meant then
    original = torch._utils._get_available_device_type
    for module in (torch._utils, torch.nn.parallel.data_parallel):
        module._get_available_device_type = lambda: (
            "vgpu" if machine.count else original()
        )


def mark(kind, tensors) -> None:
    """Let the memory of tensors on virtual GPUs count as one of `ledger.KINDS`."""
    for tensor in tensors:
        if type(tensor) is VirtualTensor:
            tensor.block.lease.kind = kind


_steps: list = []  # the optimizer whose step has begun, and the region before it


def _before_step(optimizer, args, kwargs):
    _steps[:] = [optimizer, machine.clock.region]
    machine.clock.region = Region("optimizer")
    for group in optimizer.param_groups:
        mark("gradients", [parameter.grad for parameter in group["params"]])


def _after_step(optimizer, args, kwargs):
    _mark_state(optimizer)
    machine.clock.region = _steps.pop() if _steps else None
    _steps.clear()


def _mark_state(optimizer):
    for state in optimizer.state.values():
        mark("optimizer state", state.values())


_library: list = []


def install() -> None:
    """Register the backend "vgpu" with PyTorch; a second call does nothing."""
    if _library:
        return
    register("vgpu", vgpu_api.Api(), device_guard=_Guard())
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(_factory, "PrivateUse1")
    kernels = torch.library.Library("aten", "IMPL")
    kernels.impl("empty.memory_format", _empty, "PrivateUse1")
    kernels.impl("empty_strided", _empty_strided, "PrivateUse1")
    kernels.impl("_copy_from", _copy_from, "PrivateUse1")
    _library.extend([fallback, kernels])
    torch.serialization.register_package(9, lambda storage: None, _load)
    # optimizers then work on lists of parameters at once, as on CUDA
    _foreach_supported_types.append(VirtualTensor)
    register_optimizer_step_pre_hook(_before_step)
    register_optimizer_step_post_hook(_after_step)
    vgpu_comm.serve()
    _serve_accelerator()
    VirtualTensor.data = torch.nn.Parameter.data = property(_get_data, _set_data)
    torch._has_compatible_shallow_copy_type = _compatible(
        torch._has_compatible_shallow_copy_type
    )
    torch.autograd._engine_run_backward = _single_threaded(
        torch.autograd._engine_run_backward
    )
