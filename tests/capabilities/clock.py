"""Modelled time: operators, events, streams."""

import time

import pytest
import torch

from course_lib.accelerators.selection import devices
from course_lib.accelerators.virtual import LAUNCH, machine
from tests.capabilities.rows import A100, N, absent, modelled, raises, spent


@modelled(
    "an operator",
    "It lasts as long as its arithmetic or its bytes at the rates that training"
    " reaches, the longer of both and at least 2 µs; the host goes on after 45 µs."
    ' `cl.devices(…, rates="peak")` takes the peaks of the data sheet.',
)
def operator(devs):
    x = torch.ones(N, device=devs[1])
    torch.vgpu.synchronize(1)
    assert spent(lambda: x.add_(1)) == pytest.approx(LAUNCH)
    waited = spent(lambda: torch.vgpu.synchronize(1))
    assert waited == pytest.approx(2 * x.nbytes / A100.bandwidth)


@modelled(
    "`torch.vgpu.Event(enable_timing=True)`, `torch.Event`",
    "`start.elapsed_time(stop)` gives milliseconds of the clock; `wait` lets a device"
    " wait for an event of another.",
)
def events(devs):
    x = torch.ones(N, device=devs[1])
    start, stop = (torch.Event(devs[1], enable_timing=True) for _ in range(2))
    torch.vgpu.synchronize(1)
    start.record()
    x.add_(1)
    stop.record()
    assert start.query() and not stop.query()
    raises(lambda: start.elapsed_time(stop), "call synchronize() first.")
    stop.synchronize()
    want = 1e3 * (LAUNCH + 2 * x.nbytes / A100.bandwidth)
    assert start.elapsed_time(stop) == pytest.approx(want)
    with torch.vgpu.device(1):
        other = torch.vgpu.Event(enable_timing=True)
        other.record()
    assert stop.elapsed_time(other) == pytest.approx(0) and isinstance(x, torch.Tensor)
    x.add_(1)
    torch.vgpu.current_stream(2).wait_stream(torch.vgpu.current_stream(1))
    assert machine.clock.free[2] == machine.clock.free[1] > machine.clock.host
    stop.record()
    devices(3, quiet=True)
    stop.synchronize()
    assert stop.query() and machine.clock.host == 0


@modelled(
    "`torch.Stream`, `torch.vgpu.Stream`, `with torch.vgpu.stream(…)`",
    "A device has one queue: work of two streams does not overlap on it.",
)
def streams(devs):
    x = torch.ones(N, device=devs[1])
    first, second = torch.vgpu.Stream(devs[1]), torch.Stream(devs[1])
    first.wait_stream(torch.vgpu.current_stream(1))
    start = machine.clock.wait()
    for stream in (first, second):
        with torch.vgpu.stream(stream):
            assert torch.vgpu.current_device() == 1
            x.add_(1)
    second.synchronize()
    lasted = 2 * 2 * x.nbytes / A100.bandwidth + LAUNCH
    assert machine.clock.host - start == pytest.approx(lasted)
    assert torch.vgpu.current_device() == 0 and first == second


@absent(
    "what the host does beside launching: Python, loading data",
    "The clock stands still meanwhile.",
)
def idle(devs):
    assert spent(lambda: time.sleep(0.01)) == 0


@absent(
    "`torch.profiler`",
    "It shows the operators of the CPU and their measured time; `cl.trace()` shows the"
    " clock of the devices.",
)
def profiler(devs):
    with torch.profiler.profile() as profile:
        torch.ones(2, device=devs[0]).add_(1)
    assert {event.device_type.name for event in profile.events()} == {"CPU"}
