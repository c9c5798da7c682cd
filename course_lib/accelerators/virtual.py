"""The virtual machine: its devices, what they hold, and its clock."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

from course_lib.accelerators.clock import Clock
from course_lib.accelerators.hardware import DataSheet, Link, find_link
from course_lib.accelerators.memory import KINDS, Account, Allocation
from course_lib.errors import UsageError
from course_lib.system.host import usable_memory

# Seconds that the host pays per operator, with the Python, autograd and views around
# it: fitted to half of the steps that were measured (benchmarks/gpu.md), to 5 µs.
LAUNCH = 45e-6
HOST_LINK = "PCIe4"
_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


class Device:
    """One virtual device: its index, its memory, its speed."""

    def __init__(self, index: int):
        self.index, self.name = index, f"vgpu:{index}"
        self.account = Account(0)
        self.gpu: DataSheet | None = None

    def become(self, gpu: DataSheet, memory: int) -> None:
        """Become such a GPU; what is still alive stays counted."""
        self.gpu = gpu
        self.account.settle()
        self.account.capacity, self.account.peak = memory, self.account.used
        for allocation in self.account.held:
            allocation.taken = 0.0  # seconds of the clock that begins now


class Current(threading.local):
    """The index of the current device of each thread."""

    index = 0


class Machine:
    """The virtual GPUs of this process; there is one machine, which may be set up anew.

    `count` devices can be named; `places` also holds those of an earlier set-up.
    """

    def __init__(self):
        self.count, self.places = 0, []
        self.source, self.copying, self.nccl = "", "copy", True
        self.wires = ""  # how devices are linked, in words
        self.options = None  # of cl.devices, for ranks that name these devices
        self.forked = False  # whether the devices are those of a parent process
        none: Any = None  # no device, no link
        self.clock = Clock((), link=none, host_link=none, launch=0.0)
        self.lock, self.current = threading.RLock(), Current()
        self.most, self.collected = usable_memory(), 0.0

    def set_up(
        self,
        count: int,
        *,
        gpu: DataSheet,
        memory: int,
        link: Link,
        launch: float,
        nccl: bool = True,
    ):
        """Have `count` GPUs with `memory` bytes each, all clocks and peaks at zero."""
        if self.clock.launches is not None:
            raise UsageError(
                "cannot choose devices inside of `with trace()`: choose them before."
            )
        while len(self.places) < count:
            self.places.append(Device(len(self.places)))
        for place in self.places:
            place.become(gpu, memory)
        names = tuple(place.name for place in self.places)
        host_link = link if link.name == "ideal" else find_link(HOST_LINK)
        self.clock = Clock(names, link=link, host_link=host_link, launch=launch)
        self.count, self.copying, self.forked = count, "copy", False
        self.nccl = nccl
        self.wires = link.name if nccl else f"{link.name} without NCCL"
        self.source = f"modelled: {count} × {gpu.name}, {self.wires}; {gpu.rates}"

    def place(self, index: int | None) -> Device:
        """Return a device by its index, None for the current one of this thread."""
        if self.forked:
            raise RuntimeError(
                "Cannot re-initialize vgpu in forked subprocess: keep what it works on"
                " on the CPU and move it to the device in the process that made the"
                " devices, or make others here by cl.devices(n)."
            )
        if index is None:
            index = self.current.index
        if not 0 <= index < self.count:
            raise RuntimeError(
                f"vgpu error: invalid device ordinal {index}: there are {self.count}"
                " virtual GPUs"
                + (f", vgpu:0 to vgpu:{self.count - 1}" if self.count > 1 else "")
                + ". cl.devices(n) makes n of them."
            )
        return self.places[index]

    def fits(self, place: Device, count: int) -> bool:
        """Return whether a device has `count` bytes free, if need be after garbage."""
        account = place.account
        if account.fits(count):
            return True
        # what only a cycle of objects keeps alive is not in use; looking through all
        # objects takes long, so the old ones get their turn once a second
        gc.collect(1)
        now = time.monotonic()
        if not account.fits(count) and now - self.collected > 1:
            gc.collect()
            self.collected = now
        return account.fits(count)

    def take(self, place: Device, count: int) -> Allocation | None:
        """Allocate `count` bytes on a device; None if they do not fit."""
        if not self.fits(place, count):
            return None
        if count > 2**24 and sum(p.account.used for p in self.places) > self.most:
            raise MemoryError(
                "the virtual GPUs hold more than the memory of this machine, where"
                f" their numbers are kept ({self.most / 1e9:.1f} GB): take a smaller"
                " model or batch."
            )
        return place.account.take(count, self.clock.host)


def shortage(place: Device, count: int) -> str:
    """Say in CUDA's words that `count` bytes do not fit; what is held by kind is ours.

    The words are those of torch 2.10 and later. Nothing is reserved here, and nothing
    but tensors needs memory.
    """
    account = place.account
    kinds = account.by_kind()
    held = ", ".join(f"{kind} {binary(kinds[kind])}" for kind in KINDS if kinds[kind])
    free, used = binary(account.free), binary(account.used)
    return (
        f"vgpu out of memory. Tried to allocate {binary(count)}. GPU {place.index} has"
        f" a total capacity of {binary(account.capacity)} of which {free} is free."
        f" Including non-PyTorch memory, this process has {used} memory in use. Of the"
        f" allocated memory {used} is allocated by PyTorch"
        + (f" ({held})" if held else "")
        + ", and 0 bytes is reserved by PyTorch but unallocated. If reserved but"
        " unallocated memory is large try setting"
        " PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )


def binary(count: int) -> str:
    """Return bytes in powers of 1024 as CUDA's messages have them: `20.00 MiB`."""
    for scale, unit in _UNITS:
        if count >= scale:
            return f"{count / scale:.2f} {unit}"
    return f"{count} bytes"


machine = Machine()
