"""Streams and events of virtual GPUs, in modelled time; a device has one queue."""

from __future__ import annotations

import torch

from course_lib.accelerators.vgpu.stand_ins import StandIn, numbered
from course_lib.accelerators.virtual import machine


def _default(options):
    # a stream that is told by its number is one of PyTorch's own
    own = machine.count and "stream_id" not in options
    return torch.device("vgpu") if own else None


class VirtualEvent(torch.Event, metaclass=StandIn):
    """A moment of a device's queue: `start.elapsed_time(stop)` is modelled time."""

    default = staticmethod(_default)

    def __init__(self, device, *, enable_timing=False, **_):
        self.where, self.timed = device, enable_timing
        self.time = self.clock = None

    @property
    def device(self):
        """Return the virtual GPU of the event, else the current one."""
        return numbered(self.where)

    def record(self, stream=None):
        """Note when the device will have done what was launched so far."""
        index, self.clock = (stream or self).device.index, machine.clock
        self.time = max(self.clock.host, self.clock.free[index])

    def query(self) -> bool:
        """Return whether the host has seen this moment pass."""
        return self._moment() <= machine.clock.host

    def synchronize(self):
        """Let the host wait for this moment."""
        machine.clock.host = max(machine.clock.host, self._moment())

    def wait(self, stream=None):
        """Let the queue of a device wait for this moment."""
        index = (stream or self).device.index
        free = machine.clock.free
        free[index] = max(free[index], self._moment())

    def _moment(self):
        # one that was never recorded, or before cl.devices set the clock anew, is over
        return self.time if self.clock is machine.clock else 0.0

    def elapsed_time(self, other) -> float:
        """Return milliseconds from this moment to another one, modelled."""
        if not (self.timed and other.timed):
            raise ValueError(
                "Both events must be created with argument 'enable_timing=True'."
            )
        if self.time is None or other.time is None:
            raise ValueError(
                "Both events must be recorded before calculating elapsed time."
            )
        if not (self.query() and other.query()):
            raise RuntimeError(
                "Both events must be completed before calculating elapsed time:"
                " call synchronize() first."
            )
        return 1e3 * (other.time - self.time)


class VirtualStream(torch.Stream, metaclass=StandIn):
    """The one queue of a device: work of two streams does not overlap on it."""

    default = staticmethod(_default)

    def __new__(cls, device, *_, **__):
        """Make a stream of PyTorch, which thinks that it is on device 0."""
        return super().__new__(cls, device)

    def __init__(self, device, *_, **__):
        self.where, self.before = numbered(device), []

    @property
    def device(self):
        """Return the virtual GPU."""
        return self.where

    @property
    def device_index(self) -> int:
        """Return the number of the virtual GPU."""
        return self.where.index

    def __repr__(self):
        return f"<the stream of {self.where}>"

    def __eq__(self, other):
        return isinstance(other, VirtualStream) and self.device == other.device

    def __hash__(self):
        return hash(self.device)

    def __enter__(self):
        self.before.append(machine.current.index)
        machine.current.index = self.device_index
        return self

    def __exit__(self, *_):
        machine.current.index = self.before.pop()

    def query(self) -> bool:
        """Return whether the host has seen all work of the device end."""
        return machine.clock.free[self.device_index] <= machine.clock.host

    def synchronize(self):
        """Let the host wait for the device."""
        machine.clock.wait(self.device_index)

    def record_event(self, event=None):
        """Record an event, or a new one, and return it."""
        event = VirtualEvent(self.device) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        """Let the device wait for an event."""
        event.wait(self)

    def wait_stream(self, stream):
        """Let the device wait for what another one has to do now."""
        stream.record_event().wait(self)

    def is_capturing(self) -> bool:
        """Return False: virtual GPUs have no graphs of kernels."""
        return False
