"""Out of memory on virtual GPUs: what the error says, and that nothing stays behind."""

import re
import weakref

import pytest
import torch
from torch import nn

from tests.kernels import Kernel, error, shown
from tests.test_vgpu_memory import MB, held, trained


@pytest.fixture
def small(virtual):
    """One virtual GPU of 10 MB."""
    return virtual(1, "10 MB")[0]


def test_the_message_says_what_was_tried_and_what_is_there(small):
    kept = torch.ones(MB, device=small)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.ones(2 * 2**20, device=small)
    parts = (
        r"^vgpu out of memory\.",
        r"Tried to allocate 8\.00 MiB\.",
        r"GPU 0 has a total capacity of 9\.54 MiB of which 5\.72 MiB is free\.",
        r"this process has 3\.81 MiB memory in use\.",
        r"3\.81 MiB is allocated by PyTorch \(activations 3\.81 MiB\), and 0 bytes is "
        r"reserved by PyTorch but unallocated\. .*=expandable_segments:True",
    )
    assert all(re.search(part, str(caught.value)) for part in parts), caught.value
    assert held(small) == kept.nbytes


def test_the_message_tells_the_kinds_apart(small):
    model = nn.Linear(500, 500).to(small)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    trained(model, small, optimizer)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.ones(3 * MB, device=small)
    use = str(caught.value).partition("by PyTorch (")[2]
    kinds = re.findall(r"(\w[a-z ]*?) [\d.]+ [KM]iB", use)
    assert kinds[:3] == ["parameters", "gradients", "optimizer state"]


def test_exactly_full_is_not_too_full(small):
    kept = torch.ones(10 * MB // 4, device=small)
    assert torch.vgpu.mem_get_info(small)[0] == 0 and kept.nbytes == 10 * MB
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 1 bytes"):
        torch.ones(1, dtype=torch.bool, device=small)


def test_a_huge_tensor_is_refused_before_its_numbers_are_made(small):
    for make in (torch.empty, torch.ones, torch.randn):
        with pytest.raises(torch.OutOfMemoryError, match="3.64 TiB|3725.29 GiB"):
            make(10**12, device=small)


@pytest.mark.parametrize("make", [torch.Tensor.exp, lambda x: x.to("vgpu:0", x.dtype)])
def test_what_only_a_cycle_keeps_alive_is_freed_before_an_error(small, make):
    cycle = [torch.ones(2 * MB, device=small)]
    cycle.append(cycle)
    del cycle
    assert held(small) == 8 * MB
    assert make(torch.ones(MB, device="vgpu:0")).nbytes == 4 * MB


class Wide(nn.Module):
    """Needs more memory forward than backward, or the other way round."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(100, 1000), nn.Linear(1000, 1000)

    def forward(self, x):
        return self.second(self.first(x).relu()).relu()


STEPS = {"forward": 10, "backward": 10.5, "optimizer": 11.5}


@pytest.mark.parametrize("stage", STEPS)
def test_after_an_error_the_device_is_as_full_as_before(virtual, stage):
    (device,) = virtual(1, STEPS[stage] * MB)
    rows = {"forward": 1000, "backward": 300, "optimizer": 10}[stage]
    model = Wide().to(device)
    optimizer, reached, before = torch.optim.Adam(model.parameters()), [], held(device)

    def step():
        reached.append("forward")
        loss = model(torch.ones(rows, 100, device=device)).sum()
        reached.append("backward")
        loss.backward()
        reached.append("optimizer")
        optimizer.step()

    with pytest.raises(torch.OutOfMemoryError) as caught:
        step()
    assert reached[-1] == stage
    caught.value.__traceback__ = None
    model.zero_grad()
    optimizer.state.clear()
    del caught
    assert held(device) == before
    assert model(torch.ones(10, 100, device=device)).shape == (10, 1000)


def test_a_step_that_failed_does_not_keep_its_optimizer(virtual):
    (device,) = virtual(1, "1 MB")
    model = nn.Linear(100, 1000).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 100, device=device)).sum().backward()
    with pytest.raises(torch.OutOfMemoryError) as caught:
        optimizer.step()
    alive = weakref.ref(optimizer)
    caught.value.__traceback__ = None
    del optimizer, caught
    assert alive() is None


# --- in a notebook

SETUP = """
import torch, course_lib as cl
torch.cuda.device_count = lambda: 0
(dev,) = cl.devices(1, "10 MB", quiet=True)
gpu = torch.get_device_module(dev)
def step(size):
    first = torch.ones(1_000_000, device=dev, requires_grad=True)
    return (first * 2 + torch.ones(size, device=dev)).sum()
def backward(size):
    leaf = torch.ones(200_000, device=dev, requires_grad=True)
    middle = leaf.exp()
    middle.register_hook(lambda slope: slope + torch.ones(size, device=dev))
    middle.sum().backward()
"""


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    kernel.run(SETUP)
    yield kernel
    kernel.close()


@pytest.mark.parametrize("history", [True, False], ids=["JupyterLab", "nbval"])
@pytest.mark.parametrize("cell", ["step(1_000_000)", "backward(9_000_000)"])
def test_an_error_in_a_cell_leaves_nothing_for_the_next_cell(kernel, cell, history):
    for _ in range(3):
        sent = kernel.client.execute(cell, store_history=history)
        text = error(kernel.finish(sent))
        assert "OutOfMemoryError: vgpu out of memory" in text
        assert shown(kernel.run("gpu.memory_allocated(dev)")) == "0"
    # .item(), since the notebook keeps what a cell shows
    assert shown(kernel.run("torch.ones(2, device=dev).sum().item()")) == "2.0"
