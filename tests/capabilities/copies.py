"""Copies between devices and with the host."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from course_lib.accelerators.virtual import LAUNCH, machine
from tests.capabilities.rows import N, absent, modelled, refused, spent, works


@modelled(
    "`x.to(device)`, `x.copy_(y)`, `x.cpu()`, `x.item()`",
    "A copy lasts latency + bytes / bandwidth of its link. Copies with the host hold it"
    " up until they end, those between devices do not.",
)
def waits(devs):
    x = torch.ones(N)
    assert spent(lambda: x.to(devs[1])) > x.nbytes / machine.clock.host_link.bandwidth
    assert spent(lambda: x.to(devs[1], non_blocking=True)) > 1e-3
    there = x.to(devs[1])
    assert spent(lambda: there.to(devs[2])) == pytest.approx(LAUNCH)


@modelled(
    "`x.pin_memory()`, `DataLoader(pin_memory=True)`, also with workers",
    "From and to pinned memory `non_blocking=True` does not hold up the"
    " host. Nothing is locked in memory, and pinning takes no time.",
)
def pinned(devs):
    batches = TensorDataset(torch.arange(8.0).view(4, 2), torch.arange(4))
    for workers in (0, 1):
        for x, y in DataLoader(batches, 2, pin_memory=True, num_workers=workers):
            assert x.is_pinned() and y[1:].is_pinned()
    assert not batches.tensors[0].is_pinned()
    x = torch.ones(N).pin_memory()
    assert x.pin_memory() is x and x.is_pinned()
    there = x.to(devs[1], non_blocking=True)
    torch.vgpu.synchronize(1)
    for move in (
        lambda: x.to(devs[1], non_blocking=True),
        lambda: there.copy_(x, non_blocking=True),
        lambda: x.copy_(there, non_blocking=True),
        lambda: there.to("cpu", non_blocking=True),
    ):
        assert spent(move) == pytest.approx(LAUNCH)
    assert spent(lambda: x.to(devs[1])) > 1e-3
    assert there.to("cpu", non_blocking=True).is_pinned()


@works(
    "`torch.empty(3, pin_memory=True)`, also `zeros`, `ones`, `full`, `rand`, `tensor`",
    "And `empty_like` and `zeros_like`.",
)
def pinned_factories(devs):
    x = torch.ones(3, device=devs[1])
    for made in (
        *(torch.empty(3, pin_memory=True), torch.full((3,), 2.0, pin_memory=True)),
        *(torch.zeros(3, pin_memory=True), torch.tensor([1], pin_memory=True)),
        torch.empty_like(x, device="cpu", pin_memory=True),
    ):
        assert made.is_pinned() and made.device.type == "cpu"
    assert not torch.zeros(3).is_pinned()


@refused(
    "`torch.arange(3, pin_memory=True)` and other factories",
    "You should register `PrivateUse1HooksInterface`by"
    " `RegisterPrivateUse1HooksInterface` and implement `getPinnedMemoryAllocator` at"
    " the same time for PrivateUse1.",
    "PyTorch's own words; `torch.arange(3).pin_memory()` works.",
)
def other_factories(devs):
    return torch.arange(3, pin_memory=True)


@refused(
    "`x.pin_memory()` of a tensor on a virtual GPU",
    "cannot pin a tensor of vgpu:1: only tensors of the CPU can be pinned.",
)
def pinned_there(devs):
    return torch.ones(2, device=devs[1]).pin_memory()


@absent(
    "reading too early what a copy with `non_blocking=True` brings",
    "The numbers are there at once, where CUDA may show old ones: call `synchronize`"
    " first all the same.",
)
def early(devs):
    there = torch.full((N,), 3.0, device=devs[1])
    assert there.to("cpu", non_blocking=True)[-1] == 3
    assert machine.clock.free[1] > machine.clock.host


@absent(
    "two copies at once on one link",
    "Neither slows the other down.",
)
def shared_link(devs):
    x = torch.ones(N).pin_memory()
    start = machine.clock.wait()
    for device in devs[1:]:
        x.to(device, non_blocking=True)
    first, second = (machine.clock.free[number] - start for number in (1, 2))
    assert second - first == pytest.approx(LAUNCH)
