"""What `torch.vgpu` offers, in the words of `torch.cuda`."""

from __future__ import annotations

import contextlib

import torch

from course_lib.accelerators.virtual import machine


def index_of(device) -> int | None:
    """The index that a device, its name or a number means; None for the current one."""
    if device is None or isinstance(device, int):
        return device
    return torch.device(device).index


class device:
    """A virtual GPU as the current one in a block; a negative index changes nothing."""

    def __init__(self, device):
        self.index = index_of(device)

    def __enter__(self):
        self.before = getattr(machine.current, "index", 0)
        if self.index is not None and self.index >= 0:
            machine.current.index = machine.place(self.index).index

    def __exit__(self, *_):
        machine.current.index = self.before


class Stream(contextlib.nullcontext):
    """The one stream of a device: all that it can be asked for is done already."""

    def wait_stream(self, stream):
        """Nothing to do: copies wait for both devices already."""


class Api:
    """The module `torch.vgpu`."""

    device = device

    def is_available(self) -> bool:
        """Whether there are virtual GPUs."""
        return machine.count > 0

    is_initialized = is_available

    def device_count(self) -> int:
        """The number of virtual GPUs."""
        return machine.count

    def current_device(self) -> int:
        """The index of the current device of this thread."""
        return machine.place(None).index

    def set_device(self, device) -> None:
        """Make a device the current one of this thread."""
        machine.current.index = machine.place(index_of(device)).index

    def synchronize(self, device=None) -> None:
        """Let the host wait for a device."""
        if not machine.forked:  # any profiler asks for this at its end
            machine.clock.wait(machine.place(index_of(device)).index)

    def memory_allocated(self, device=None) -> int:
        """Bytes that tensors hold on a device now."""
        return self._account(device).used

    def max_memory_allocated(self, device=None) -> int:
        """The most bytes that tensors held since the last reset."""
        return self._account(device).peak

    def reset_peak_memory_stats(self, device=None) -> None:
        """Begin to look for the peak anew."""
        account = self._account(device)
        account.peak = account.used

    def mem_get_info(self, device=None) -> tuple[int, int]:
        """Free and total bytes of a device."""
        account = self._account(device)
        return account.free, account.capacity

    def empty_cache(self) -> None:
        """Nothing to do: what is freed is free at once."""

    def get_device_name(self, device=None) -> str:
        """The GPU that a device models."""
        return f"virtual {self.get_device_properties(device).name}"

    def get_device_properties(self, device=None):
        """The data sheet of the GPU that a device models."""
        return machine.place(index_of(device)).gpu

    # all devices draw from the CPU's generator, so that a seed means the same numbers
    def manual_seed_all(self, seed) -> None:
        """Nothing to do: torch.manual_seed has seeded the CPU's generator."""

    manual_seed = manual_seed_all

    def get_rng_state(self, device=None) -> torch.Tensor:
        """The state of the random numbers, which is the CPU's."""
        return torch.get_rng_state()

    def set_rng_state(self, state, device=None) -> None:
        """Set the state of the random numbers, which is the CPU's."""
        torch.set_rng_state(state)

    def _is_in_bad_fork(self) -> bool:
        return machine.forked

    def get_amp_supported_dtype(self) -> list:
        """None: autocast says so and switches itself off."""
        return []

    def _account(self, device):
        account = machine.place(index_of(device)).account
        account.settle()
        return account
