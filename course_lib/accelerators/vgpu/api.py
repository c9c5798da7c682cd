"""What `torch.vgpu` offers, in the words of `torch.cuda`."""

from __future__ import annotations

import contextlib
import sys
import types
from collections import OrderedDict

import torch

from course_lib.accelerators.memory import KINDS
from course_lib.accelerators.vgpu.autocast import DTYPES
from course_lib.accelerators.vgpu.ranks import refuse_random_shards
from course_lib.accelerators.vgpu.streams import VirtualEvent, VirtualStream
from course_lib.accelerators.virtual import binary, machine


def index_of(device) -> int | None:
    """Return the index that a device, its name or a number means, or None."""
    if device is None or isinstance(device, int):
        return device
    return torch.device(device).index


class device:
    """A virtual GPU as the current one in a block; a negative index changes nothing."""

    def __init__(self, device):
        self.index = index_of(device)

    def __enter__(self):
        self.before = machine.current.index
        if self.index is not None and self.index >= 0:
            machine.current.index = machine.place(self.index).index

    def __exit__(self, *_):
        machine.current.index = self.before


class Properties(types.SimpleNamespace):
    """What a program may ask a virtual GPU for; the rest it does not model."""

    def __getattr__(self, name):
        raise AttributeError(
            f"a virtual GPU has no {name}: only memory, bandwidth and FLOP/s of the"
            " GPU are modelled, and the CPU computes the numbers."
        )


class Api:
    """The module `torch.vgpu`."""

    device = device
    Stream, Event = VirtualStream, VirtualEvent

    def __getattr__(self, name):
        raise AttributeError(
            f"torch.vgpu has no {name}: docs/virtual-gpus.md lists what of torch.cuda"
            " virtual GPUs have."
        )

    def is_available(self) -> bool:
        """Return whether there are virtual GPUs."""
        return machine.count > 0

    is_initialized = is_available

    def device_count(self) -> int:
        """Return the number of virtual GPUs."""
        return machine.count

    def current_device(self) -> int:
        """Return the index of the current device of this thread."""
        return machine.place(None).index

    def set_device(self, device) -> None:
        """Make a device the current one of this thread."""
        machine.current.index = machine.place(index_of(device)).index

    def synchronize(self, device=None) -> None:
        """Let the host wait for a device."""
        # any profiler asks for this at its end, also where there are none to wait for
        if not machine.forked and (machine.count or device is not None):
            machine.clock.wait(machine.place(index_of(device)).index)

    def current_stream(self, device=None) -> VirtualStream:
        """Return the one queue of a device."""
        index = machine.place(index_of(device)).index
        return VirtualStream(torch.device("vgpu", index))

    default_stream = current_stream

    def stream(self, stream):
        """Return a block whose current device is that of a stream."""
        return contextlib.nullcontext() if stream is None else stream

    def set_stream(self, stream) -> None:
        """Make the device of a stream the current one of this thread."""
        self.set_device(stream.device)

    def memory_allocated(self, device=None) -> int:
        """Return bytes that tensors hold on a device now."""
        return self._account(device).used

    def max_memory_allocated(self, device=None) -> int:
        """Return the most bytes that tensors held since the last reset."""
        return self._account(device).peak

    # no memory is kept for later, so none is reserved beside that of tensors
    memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated

    def memory_stats(self, device=None) -> OrderedDict:
        """Return the bytes that tensors hold and held at most, by the names of CUDA."""
        account = self._account(device)
        counts = {"current": account.used, "peak": account.peak}
        return OrderedDict(
            (f"{kind}_bytes.all.{when}", count)
            for kind in ("active", "allocated", "reserved")
            for when, count in counts.items()
        )

    def memory_summary(self, device=None, abbreviated=False) -> str:
        """Return what a device holds, by kind, in words."""
        account = self._account(device)
        kinds = account.by_kind()
        rows = [f"{kind:<16}{binary(kinds[kind]):>12}" for kind in KINDS]
        for name, count in (
            ("in all", account.used),
            ("at the peak", account.peak),
            ("capacity", account.capacity),
        ):
            rows.append(f"{name:<16}{binary(count):>12}")
        return "\n".join([self.get_device_name(device), *rows])

    def reset_peak_memory_stats(self, device=None) -> None:
        """Begin to look for the peak anew."""
        account = self._account(device)
        account.peak = account.used

    def reset_accumulated_memory_stats(self, device=None) -> None:
        """Do nothing: nothing is accumulated."""

    def mem_get_info(self, device=None) -> tuple[int, int]:
        """Return free and total bytes of a device."""
        account = self._account(device)
        return account.free, account.capacity

    def empty_cache(self) -> None:
        """Do nothing: what is freed is free at once."""

    empty_host_cache = empty_cache

    def get_device_name(self, device=None) -> str:
        """Return the GPU that a device models."""
        return f"virtual {self._gpu(device).name}"

    def get_device_properties(self, device=None) -> Properties:
        """Return name, chosen bytes and compute capability of the modelled GPU."""
        name = self.get_device_name(device)
        total = self._account(device).capacity
        numbers = dict(zip(("major", "minor"), self._gpu(device).capability))
        return Properties(name=name, total_memory=total, **numbers)

    def get_device_capability(self, device=None) -> tuple[int, int]:
        """Return the compute capability of the GPU that is modelled."""
        properties = self.get_device_properties(device)
        return properties.major, properties.minor

    def is_bf16_supported(self, including_emulation=True) -> bool:
        """Return whether there are bfloat16 numbers: the CPU has them."""
        return True

    # all devices draw from the CPU's generator, so that a seed means the same numbers
    def manual_seed_all(self, seed) -> None:
        """Do nothing: torch.manual_seed has seeded the CPU's generator."""

    manual_seed = manual_seed_all

    def get_rng_state(self, device=None) -> torch.Tensor:
        """Return the state of the random numbers, which is the CPU's."""
        refuse_random_shards(sys._getframe(1).f_globals.get("__name__", ""))
        return torch.get_rng_state()

    def set_rng_state(self, state, device=None) -> None:
        """Set the state of the random numbers, which is the CPU's."""
        torch.set_rng_state(state)

    def _is_in_bad_fork(self) -> bool:
        return machine.forked

    def get_amp_supported_dtype(self) -> list:
        """Return the types that autocast may be asked for."""
        return DTYPES

    def _gpu(self, device):
        return machine.place(index_of(device)).gpu

    def _account(self, device):
        account = machine.place(index_of(device)).account
        account.settle()
        return account
