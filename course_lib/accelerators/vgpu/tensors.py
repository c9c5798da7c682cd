"""The tensors of virtual GPUs: each wraps one of the CPU and holds its memory."""

from __future__ import annotations

import functools
import traceback
from collections import OrderedDict
from contextlib import contextmanager
from typing import Any

import torch

from course_lib.accelerators.dtensors import local_part
from course_lib.accelerators.memory import Allocation
from course_lib.accelerators.vgpu.memory_kinds import mark_unfinished
from course_lib.accelerators.virtual import Device, binary, machine, shortage

_make = torch.Tensor._make_wrapper_subclass
get_data = torch._C.TensorBase.data.__get__  # the tensor without its history
_set_data = torch._C.TensorBase.data.__set__


@functools.cache
def _device(index):
    return torch.device("vgpu", index)


class Held:
    """One storage on a device: frees its bytes when the last tensor of it dies."""

    __slots__ = ("device", "key", "allocation", "place")
    emptied = False  # whether any was, while a tensor of it lived

    def __init__(self, place: Device, allocation: Allocation, key: int):
        self.place, self.allocation, self.key = place, allocation, key
        self.device = _device(place.index)

    def __del__(self):
        self._give_back(self.allocation)

    @contextmanager
    def resized(self, count: int):
        """Hold `count` bytes after the block; as on CUDA they must fit beside its own.

        If they do not, or the block fails, it holds what it held.
        """
        with machine.lock:
            new = _take(self.place, count)
            new.kind = self.allocation.kind
            try:
                yield
            except BaseException:
                self._give_back(new)
                raise
            self._give_back(self.allocation)
            self.allocation = new
            Held.emptied = Held.emptied or not count

    def _give_back(self, allocation):
        allocation.freed = machine.clock.host
        self.place.account.returned.append(allocation)


class VirtualTensor(torch.Tensor):
    """A tensor on a virtual GPU: `elem` is its data on the CPU, `block` its memory."""

    # as for torch.Tensor itself: nothing happens above the dispatcher
    __torch_function__ = torch._C._disabled_torch_function_impl
    run: Any = None  # what runs an operator: operators.py puts itself here

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """Run one operator."""
        return cls.run(func, args, kwargs or {})

    @property
    def _is_param(self):
        return self.__dict__.get("param", False)

    @_is_param.setter
    def _is_param(self, yes):
        self.__dict__["param"] = yes
        self.block.allocation.kind = "parameters"

    @property
    def freed(self):
        """Whether its storage was emptied, and not filled again."""
        return not self.block.allocation.bytes and self.elem.numel() > 0

    def record_stream(self, stream):
        """Do nothing: a virtual GPU has one stream."""

    def __repr__(self, *, tensor_contents=None):
        """Write the numbers and the device, as PyTorch prints them."""
        machine.clock.wait(self.block.place.index)
        module = torch._tensor_str
        head = "Parameter containing:\n" if self._is_param else ""
        with torch.no_grad():
            numbers = "freed"
            if not self.freed:
                numbers = module._tensor_str(self.elem, len("tensor("))
        text = module._str_intern(self, tensor_contents=numbers)
        if self._is_param:
            text = text.removeprefix("Parameter(")[:-1]
        return head + text.replace(type(self).__name__, "tensor", 1)

    def __format__(self, spec):
        return self.item().__format__(spec) if self.dim() == 0 else repr(self)

    def tolist(self):
        """Return the numbers as lists of Python's own."""
        return self.cpu().tolist()

    def numpy(self, **_):
        """Refuse, as CUDA does."""
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu()"
            " to copy the tensor to host memory first."
        )

    def __array__(self, *_, **__):
        return self.numpy()

    def untyped_storage(self):
        """Return the CPU's memory of the numbers; as many bytes as on CUDA."""
        storage = self.elem.untyped_storage()
        # PyTorch keeps the Python object of a storage as long as the storage itself; a
        # class of its own would neither be pickled nor be taken for a storage
        storage.held = self.block
        return storage

    def data_ptr(self):
        """Return the address of the first number, in the CPU's memory."""
        return self.elem.data_ptr()

    def __reduce_ex__(self, protocol):
        """Travel as a tensor of the CPU that is put back on the device."""
        if self.freed:
            raise_freed("pickle", self)
        if self._is_param:
            parts = self.detach(), self.requires_grad, OrderedDict()
            return torch._utils._rebuild_parameter, parts
        data = (self.elem, self.dtype, str(self.device), self.requires_grad)
        return torch._utils._rebuild_device_tensor_from_cpu_tensor, data

    def __deepcopy__(self, memo):
        """Copy on the same device, with the gradient unless it is a parameter."""
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            return super().__deepcopy__(memo)
        with torch.no_grad():
            copy = self.clone().requires_grad_(self.requires_grad)
        if self._is_param:  # as `Parameter.__deepcopy__`
            copy = torch.nn.Parameter(copy, self.requires_grad)
        elif self.grad is not None:
            copy.grad = self.grad.__deepcopy__(memo)
        memo[id(self)] = copy
        return copy


def wrap(elem, block):
    """Return a tensor of a virtual GPU around one of the CPU."""
    size, stride, offset = elem.size(), elem.stride(), elem.storage_offset()
    dtype, layout, device = elem.dtype, elem.layout, block.device
    tensor = _make(VirtualTensor, size, stride, offset, None, dtype, layout, device)
    tensor.elem, tensor.block = elem, block
    return tensor


def new_tensor(elem, place):
    """Return a tensor around one of the CPU, in new memory of a virtual GPU."""
    return wrap(elem, block_of(storage_of(elem), place))


def storage_of(elem):
    """Return the memory of a tensor of the CPU."""
    try:
        return elem.untyped_storage()
    except NotImplementedError:
        raise NotImplementedError(
            f"virtual GPUs hold dense tensors only: keep {elem.layout} on the CPU."
        ) from None


def key_of(storage):
    """Return a number that all tensors of one living storage share."""
    return storage._cdata


def block_of(storage, place):
    """Return new memory on the device for a storage of the CPU."""
    return Held(place, _take(place, storage.nbytes()), key_of(storage))


def _take(place, count):
    return machine.take(place, count) or raise_out_of_memory(place, count)


def resizing(original):
    """Let `storage.resize_` take and free bytes on the device where its tensor is.

    FSDP empties the storage of gathered weights so, and fills it again.
    """

    @functools.wraps(original)
    def resize_(storage, count):
        held = getattr(storage, "held", None)
        if held is None or not isinstance(count, int) or count < 0:
            return original(storage, count)
        with held.resized(count):
            return original(storage, count)

    return resize_


def raise_out_of_memory(place, count):
    """Raise what CUDA raises when `count` bytes do not fit."""
    mark_unfinished()
    raise torch.OutOfMemoryError(shortage(place, count) + _too_large(place))


def raise_freed(name, tensor):
    """Raise where the CPU would end the process, and CUDA an illegal memory access."""
    raise RuntimeError(
        f"{name} was given a tensor of shape {[*tensor.shape]} on {tensor.device} whose"
        " memory is freed: its storage was emptied by resize_(0), and not resized again"
        " since."
    )


def _too_large(place):
    """How many devices the model needs that is being moved; "" if it could fit."""
    move = torch.nn.Module._apply.__code__
    frames = [frame for frame, _ in traceback.walk_stack(None) if frame.f_code is move]
    if not frames:
        return ""
    model = frames[-1].f_locals["self"]
    tensors = [*model.parameters(), *model.buffers()]
    total = sum(local_part(tensor).nbytes for tensor in tensors)
    most = place.account.capacity
    if total <= most:
        return ""
    return (
        f" This model cannot fit: its parameters take {binary(total)}, so they alone"
        f" need {-(-total // most)} devices of {binary(most)}."
    )


def relabel(tensor, operands):
    """Give a tensor the shape and the memory that its data has got."""
    elem, block = tensor.elem, tensor.block
    storage = elem.untyped_storage()
    if key_of(storage) != block.key:
        blocks = {other.block.key: other.block for other in operands}
        known = blocks.get(key_of(storage)) or getattr(storage, "held", None)
        tensor.block = known or block_of(storage, block.place)
    elif storage.nbytes() != block.allocation.bytes:
        with block.resized(storage.nbytes()):
            pass  # it is: whoever shares it sees that
    if tensor.shape == elem.shape and tensor.stride() == elem.stride():
        return
    source = torch.Tensor.untyped_storage(tensor)
    meta = torch._C._meta_in_tls_dispatch_include()
    torch._C._set_meta_in_tls_dispatch_include(True)
    try:
        with torch.utils._mode_utils.no_dispatch():
            shape = elem.storage_offset(), elem.size(), elem.stride()
            torch.ops.aten.set_.source_Storage_storage_offset(tensor, source, *shape)
    finally:
        torch._C._set_meta_in_tls_dispatch_include(meta)


def set_data(tensor, new):
    """Take over the numbers and the device of another tensor: `module.to` does this."""
    if type(tensor) is type(new) is VirtualTensor:
        _set_data(tensor, new)
        tensor.elem, tensor.block = new.elem, new.block
        if tensor._is_param:
            tensor._is_param = True  # its new memory is that of a parameter
    elif VirtualTensor in (type(tensor), type(new)):
        swap(tensor, torch.nn.Parameter(new, tensor.requires_grad))
    else:
        _set_data(tensor, new)


def swap(parameter, new):
    """Exchange two tensors, which all who hold one of them will see."""
    # as torch.utils.swap_tensors, which refuses while a graph or a weak reference is
    # alive; an optimizer made before module.to must keep its parameters
    for name in ("__class__", "__dict__"):
        own = getattr(parameter, name)
        setattr(parameter, name, getattr(new, name))
        setattr(new, name, own)
    torch._C._swap_tensor_impl(parameter, new)


def compatible(original):
    """Let `module.to` keep its parameters when they change between CPU and vgpu."""

    @functools.wraps(original)
    def wrapped(tensor, new):
        if VirtualTensor in (type(tensor), type(new)) and type(tensor) is not type(new):
            return isinstance(tensor, torch.nn.Parameter)
        return original(tensor, new)

    return wrapped
