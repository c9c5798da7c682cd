"""What checks see of an answer on devices: its result, bytes, peak memory and time."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from course_lib.tracing.events import Trace


@dataclass(frozen=True)
class Run:
    """One call that was watched: what came back, and what it cost.

    Bytes by device name: held `before` the call, and at its `peak`.
    """

    result: object
    before: dict[str, int]
    peak: dict[str, int]
    trace: Trace

    @property
    def seconds(self) -> float:
        """From the first event to the last; modelled on virtual GPUs."""
        return self.trace.span

    def crossings(self) -> list[int]:
        """Return the bytes of each transfer from one device to another, in order."""
        return [
            transfer.bytes
            for transfer in self.trace.transfers
            if "cpu" not in (transfer.source, transfer.target)
        ]


def on_devices(count: int, **options) -> list[torch.device]:
    """Return virtual GPUs for the ranks of a check, whatever the machine has.

    A check counts bytes and compares modelled times: on real GPUs the work space of
    libraries would count, too, and the verdict would depend on the machine.
    """
    from course_lib.accelerators.selection import devices

    return devices(count, quiet=True, **{"gpu": "A100", **options})


def watch(call: Callable, devs: Sequence[torch.device]) -> Run:
    """Call once, watched."""
    from course_lib.tracing.device_trace import trace

    gpu = torch.get_device_module(devs[0])
    before = held(devs)
    for device in devs:
        gpu.reset_peak_memory_stats(device)
    with trace() as recorded:
        result = call()
    return Run(
        result,
        before,
        {str(device): gpu.max_memory_allocated(device) for device in devs},
        recorded,
    )


def held(devs: Sequence[torch.device]) -> dict[str, int]:
    """Return the bytes that are allocated now by device name, without garbage."""
    gc.collect()
    gpu = torch.get_device_module(devs[0])
    return {str(device): gpu.memory_allocated(device) for device in devs}


def to_cpu(value):
    """Return a tensor on the CPU, cut off from its graph; all else as it is."""
    return value.detach().cpu().clone() if torch.is_tensor(value) else value


def one_gpu(memory: int | None = None):
    """Return the device of a check in a rank, and its module."""
    [device] = on_devices(1, memory=memory)
    return device, torch.get_device_module(device)
