"""Operators on virtual GPUs: run on the CPU's tensors, charged to the device."""

from __future__ import annotations

import functools

import torch

from course_lib.accelerators.cost import flops_of, rate_of, switch_of
from course_lib.accelerators.hardware import compute_time
from course_lib.accelerators.missing import SYNC_BATCH_NORM
from course_lib.accelerators.vgpu.memory_kinds import kind_of, mark_kind
from course_lib.accelerators.vgpu.tensors import (
    Held,
    VirtualTensor,
    block_of,
    key_of,
    raise_freed,
    relabel,
    storage_of,
    wrap,
)
from course_lib.accelerators.virtual import machine

aten = torch.ops.aten
CPU = torch.device("cpu")


class Traits:
    """What is to be known of an operator before it runs; found once."""

    def __init__(self, func):
        packet, tags = func.overloadpacket, func.tags
        name = packet.__name__
        self.special = SPECIAL.get(packet)
        if self.special is None and _composite(func):
            self.special = _decomposed
        self.flops, self.switch = flops_of(func), switch_of(func)
        self.convolves = "convolution" in name
        self.sums = name in _SUMS
        self.launches = _launches(name)
        relabels = torch.Tag.inplace_view in tags or name in _RESHAPE
        self.free = relabels or "empty" in name
        aliased = [a for a in func._schema.arguments if a.alias_info is not None]
        outs = any(a.kwarg_only and a.alias_info.is_write for a in aliased)
        self.reshapes = relabels or outs
        views = any(not a.alias_info.is_write for a in aliased)
        self.blind = self.free or views or name.endswith("like")  # to the numbers
        # lists that are written and not returned; fused optimizers only read gradients
        self.writes = [
            (position, argument.name)
            for position, argument in enumerate(func._schema.arguments)
            if argument.alias_info is not None
            and isinstance(argument.type, torch.ListType)
            and argument.name != "grads"
            and not func._schema.returns
        ]
        # these take indices or lengths from the CPU on CUDA, too
        self.mixes = name in _MIXES
        self.picks = name in _PICKS
        self.leaves = name in _LEAVES
        self.kind = kind_of(func)
        dynamic = torch.Tag.dynamic_output_shape in tags
        self.waits = dynamic or torch.Tag.data_dependent_output in tags


TRAITS: dict = {}
SHORTEST = 2e-6  # seconds: kernels with next to nothing to do took 1 to 3 µs (gpu.md)
# How many usual operators the host pays for one. Autocast changes types without Python
# and autograd; optimizers walk through lists of all parameters. Fitted as the host's
# seconds are (benchmarks/fitted.py).
CHANGE_OF_TYPE, LIST = 0.25, 4.0
SPECIAL: dict = {}  # operators that are not one kernel on one device; backend fills it
_RESHAPE = {"resize_", "resize_as_", "set_", "_resize_output_"}
_MIXES = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
_MIXES |= {"_pack_padded_sequence", "tensor_split", "_ctc_loss"}
# of whose results the last stays on the CPU, which plans with it
_LEAVES = {"_pack_padded_sequence"}
_PICKS = {"embedding", "index", "index_select", "gather", "_unsafe_index"}
# CUDA's kernels add up products of 16 bits in float32 and round once; those of most
# CPUs do so, too, but took 25 times as long as a detour through float32
_SUMS = {"mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward"}
_HALVES = {torch.float16, torch.bfloat16}
_PLAIN = {int, float, bool, type(None), torch.dtype}


def run_operator(func, args, kwargs):
    """Run one operator on the CPU's tensors and charge the device for it."""
    traits = TRAITS.get(func) or TRAITS.setdefault(func, Traits(func))
    if Held.emptied and not traits.blind:
        _refuse_freed(func, args)
    if traits.special is not None:
        return traits.special(func, args, kwargs)
    operands, strange, inner = [], [], []
    for value in args:
        kind = type(value)
        if kind is VirtualTensor:
            operands.append(value)
            inner.append(value.elem)
        else:
            inner.append(value if kind in _PLAIN else _open(value, operands, strange))
    place = operands[0].block.place if operands else None
    named = kwargs
    if kwargs:
        named = {key: _open(value, operands, strange) for key, value in kwargs.items()}
        place = _elsewhere(named, operands, place)
    if operands and (len(operands) > 1 or strange):
        _refuse_mixture(func, traits, operands=operands, strange=strange)
    call = func
    if operands and operands[0].dtype.is_complex:
        call = functools.partial(_with_lazy_bits, func)
    elif traits.sums and "out" not in named and operands[0].dtype in _HALVES:
        call = functools.partial(_in_float32, func)
    try:
        out = call(*inner, **named)
    except NotImplementedError as error:
        raise _unknown(func, error) from None
    if place is None:
        return out
    if traits.kind:
        mark_kind(traits.kind, operands)
    with machine.lock:
        result, works = _wrapped(out, place, operands=operands, traits=traits)
        if works and not traits.free:
            charge(traits, place, done=(inner, named, out), operands=operands)
    if traits.leaves:
        return *result[:-1], out[-1]
    if traits.waits:
        machine.clock.wait(place.index)
    return result


def _with_lazy_bits(func, /, *args, **kwargs):
    # a dispatch from Python leaves these out; operators that conjugate inside need them
    keys, guard = torch._C.DispatchKey, torch._C._SetExcludeDispatchKeyGuard
    with guard(keys.Conjugate, False), guard(keys.Negative, False):
        return func(*args, **kwargs)


def _in_float32(func, /, *args, **kwargs):
    """Run an operator on numbers of 16 bits in float32, and round what comes out."""
    halves = [arg for arg in args if type(arg) is torch.Tensor]
    dtype = halves[0].dtype
    if any(tensor.dtype is not dtype for tensor in halves):
        return func(*args, **kwargs)  # refuses them, in its own words
    wide = [arg.float() if type(arg) is torch.Tensor else arg for arg in args]
    out = func(*wide, **kwargs)
    if type(out) is torch.Tensor:
        return out.to(dtype)
    return tuple(each if each is None else each.to(dtype) for each in out)


def _unknown(func, error):
    """Say what is with an operator that the CPU does not have, such as CUDA's own."""
    if "CPU" not in str(error):
        return error
    name = func.overloadpacket.__name__
    if name == "batch_norm_stats":  # the first of SyncBatchNorm, which refuses the CPU
        return NotImplementedError(SYNC_BATCH_NORM)
    return NotImplementedError(
        f"virtual GPUs do not have the operator {name}, since the CPU has none: use"
        " .cpu() for this part of the model."
    )


def _elsewhere(named, operands, place):
    """Return the device that a factory is asked for; the CPU shall make the numbers."""
    if "device" not in named:
        return operands[0].block.place if operands else place
    device = named["device"]
    if device is not None:
        place = place_of(device)
        named["device"] = CPU if place else device
    return place


def _open(value, operands, strange):
    """Return what the CPU works on instead of `value`; note where tensors are."""
    kind = type(value)
    if kind is VirtualTensor:
        operands.append(value)
        return value.elem
    if kind is list or kind is tuple:
        return kind([_open(each, operands, strange) for each in value])
    if isinstance(value, torch.Tensor) and value.dim():
        strange.append(value)
    return value


def _refuse_mixture(func, traits, *, operands, strange):
    place = operands[0].block.place
    for tensor in operands:
        if tensor.block.place is not place:
            break
    else:
        if traits.mixes or not strange:
            return
        tensor = strange[0]
    if tensor.device == operands[0].device:  # a DTensor, which no list is asked about
        raise RuntimeError(
            f"{func}: got mixed torch.Tensor and DTensor, need to convert all"
            " torch.Tensor to DTensor before calling distributed operators!"
        )
    name = func.overloadpacket.__name__
    raise RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices,"
        f" {place.name} and {tensor.device}! (when checking arguments in method"
        f" wrapper_vgpu_{name})"
    )


def _refuse_freed(func, values):
    for value in values:
        if type(value) is list or type(value) is tuple:
            _refuse_freed(func, value)
        elif type(value) is VirtualTensor and value.freed:
            raise_freed(func.overloadpacket.__name__, value)


def _wrapped(out, place, *, operands, traits):
    """Return the results as tensors of the device, and whether any was computed."""
    kind = type(out)
    if kind is torch.Tensor:
        for tensor in operands:
            if tensor.elem is out:
                if traits.reshapes:
                    relabel(tensor, operands)
                return tensor, True
        storage = storage_of(out)
        key = key_of(storage)
        for tensor in operands:
            if tensor.block.key == key:
                return wrap(out, tensor.block), False
        return wrap(out, block_of(storage, place)), True
    if kind is tuple or kind is list:
        return _all_wrapped(out, place, (operands, traits))
    if hasattr(out, "trigger_wait"):
        # a functional collective, whose tensor would wait when it is used
        return _wrapped(out.trigger_wait(), place, operands=operands, traits=traits)
    return out, True


def _all_wrapped(out, place, given):
    """Several results; they may share memory with what was given and each other."""
    operands, traits = given
    same = {id(tensor.elem): tensor for tensor in operands}
    blocks = {tensor.block.key: tensor.block for tensor in operands}
    results, works = [], False
    for each in out:
        if id(each) in same:
            each, works = same[id(each)], True
            if traits.reshapes:
                relabel(each, operands)
        elif isinstance(each, torch.Tensor):
            storage = storage_of(each)
            key = key_of(storage)
            if key not in blocks:
                blocks[key], works = block_of(storage, place), True
            each = wrap(each, blocks[key])
        elif type(each) in (list, tuple):
            each, more = _all_wrapped(each, place, given)
            works = works or more
        results.append(each)
    return type(out)(results), works


def charge(traits, place, *, done, operands):
    """Let the device work on an operator that is done, as long as it would take."""
    inner, named, out = done
    first, bytes = out, 0
    if type(out) is torch.Tensor:
        bytes = out.nbytes
    elif type(out) is tuple or type(out) is list:
        first = out[0] if out else None
        bytes = sum(each.nbytes for each in out if type(each) is torch.Tensor)
    for position, name in traits.writes:
        given = named[name] if name in named else inner[position]
        bytes += sum(each.nbytes for each in given)
    if traits.picks:
        bytes *= 2
    else:
        for tensor in operands:
            bytes += tensor.elem.nbytes
    flops, rate = 0, "float32"
    if traits.flops is not None:
        flops = traits.flops(inner, named, out)
        if traits.convolves:
            flops /= place.gpu.convolution
        dtype = first.dtype if type(first) is torch.Tensor else operands[0].dtype
        rate = rate_of(dtype, traits.switch)
    seconds = compute_time(place.gpu, flops=flops, bytes=bytes, dtype=rate)
    machine.clock.operate(place.index, max(seconds, SHORTEST), traits.launches)


def _launches(name):
    if name == "_to_copy":
        return CHANGE_OF_TYPE
    return LIST if name.startswith(("_foreach_", "_fused_", "_amp_foreach_")) else 1.0


def _composite(func):
    """Whether the CPU only has the operator as a sequence of others."""
    return func._can_decompose() and not func.has_kernel_for_dispatch_key(
        torch._C.DispatchKey.CPU
    )


def _decomposed(func, args, kwargs):
    # only in inference mode: autograd takes these apart by itself
    return func.decompose(*args, **kwargs)


def place_of(device):
    """Return the virtual GPU that a device names; None for one that is none."""
    device = torch.device(device)
    return machine.place(device.index) if device.type == "vgpu" else None


VirtualTensor.run = staticmethod(run_operator)
