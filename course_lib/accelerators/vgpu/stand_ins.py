"""Classes of PyTorch that make objects of virtual GPUs where such a device is meant."""

from __future__ import annotations

import torch

from course_lib.accelerators.virtual import machine


class StandIn(type(torch.Generator)):
    """The class of a class that stands in place of its base, one of PyTorch's own.

    Called for a virtual GPU it makes its own objects, else those of its base; all of
    them are instances of either.
    """

    def __call__(cls, device=None, *args, **kwargs):
        """Make an object for a device; `default` says what None is."""
        device = cls.default(kwargs) if device is None else torch.device(device)
        if device is None:
            return cls.__base__(*args, **kwargs)
        make = super().__call__ if device.type == "vgpu" else cls.__base__
        return make(device, *args, **kwargs)

    def __instancecheck__(cls, value):
        return isinstance(value, cls.__base__)

    def __subclasscheck__(cls, kind):
        return issubclass(kind, cls.__base__)


def numbered(device) -> torch.device:
    """Return a virtual GPU with its number, or with that of the current one."""
    return torch.device("vgpu", machine.place(device.index).index)
