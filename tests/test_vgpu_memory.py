"""Memory of virtual GPUs: counted by storage, freed at once, refused when full."""

import gc

import pytest
import torch
from torch import nn

from course_lib.accelerators.memory import KINDS
from course_lib.accelerators.memory_by_kind import memory
from course_lib.accelerators.virtual import machine
from course_lib.tracing.device_trace import trace

MB = 1_000_000


def held(device):
    return torch.vgpu.memory_allocated(device)


@pytest.fixture
def small(virtual):
    """One virtual GPU of 10 MB."""
    return virtual(1, "10 MB")[0]


def trained(model, device, optimizer, rows=64):
    optimizer.zero_grad()
    model(torch.ones(rows, model.in_features, device=device)).sum().backward()
    optimizer.step()


# --- counting


def test_a_tensor_takes_the_bytes_of_its_numbers(small):
    tensors = [torch.ones(1000, dtype=t, device=small) for t in (torch.float64, bool)]
    assert held(small) == 8000 + 1000
    tensors.append(torch.ones(0, device=small))
    assert held(small) == 9000
    del tensors
    assert held(small) == 0


def test_views_share_the_memory_of_their_base(small):
    base = torch.ones(100, 10, device=small)
    views = [base[0], base.t(), base.view(-1), base.detach(), base.expand(5, 100, 10)]
    views += [*base.split(10), *base.unbind(0), base[::2, 1:3]]
    assert held(small) == 4000
    del base
    assert held(small) == 4000
    del views
    assert held(small) == 0


def test_an_operator_in_place_takes_nothing(small):
    tensor = torch.ones(1000, device=small)
    torch.vgpu.reset_peak_memory_stats(small)
    tensor.add_(1).mul_(2).clamp_(max=3)
    tensor[:10].zero_()
    torch.add(tensor, 1, out=tensor)
    assert held(small) == torch.vgpu.max_memory_allocated(small) == 4000


def test_a_tensor_that_is_resized_takes_its_new_size(small):
    tensor = torch.ones(10, device=small)
    tensor.resize_(1000)
    assert held(small) == 4000 and tensor.shape == (1000,)
    tensor.set_()
    assert held(small) == 0


def test_the_peak_is_the_most_since_the_last_reset(small):
    torch.ones(MB // 4, device=small)
    kept = torch.ones(1000, device=small)
    assert (held(small), torch.vgpu.max_memory_allocated(small)) == (4000, MB)
    torch.vgpu.reset_peak_memory_stats(small)
    assert torch.vgpu.max_memory_allocated(small) == 4000
    kept = kept + kept
    assert torch.vgpu.max_memory_allocated(small) == 8000


def test_free_and_total_add_up_to_the_capacity(small):
    kept = torch.ones(1000, device=small)
    assert torch.vgpu.mem_get_info(small) == (10 * MB - kept.nbytes, 10 * MB)


def test_every_way_to_name_a_device_means_the_same_memory(devs):
    kept = torch.ones(25, device=devs[2])
    assert held(devs[2]) == held("vgpu:2") == held(2) == kept.nbytes
    assert held(None) == held("vgpu") == held(0) == 0
    torch.vgpu.set_device(2)
    try:
        assert held(None) == 100
    finally:
        torch.vgpu.set_device(0)


def test_a_copy_takes_memory_at_its_target_only(devs):
    source = torch.ones(1000, device=devs[0])
    kept = source.to(devs[1])
    assert [held(device) for device in devs] == [4000, kept.nbytes, 0]
    back = source.cpu()
    assert [held(device) for device in devs] == [4000, 4000, 0] and back.nbytes == 4000


def test_activations_live_as_long_as_their_graph(small):
    leaf = torch.ones(1000, device=small, requires_grad=True)
    out = leaf.exp().exp().sum()
    # two results of exp that backward needs, and the sum
    assert held(small) == 4000 + 2 * 4000 + 4
    out.backward()
    assert held(small) == 4000 + 4 + 4000
    del out
    leaf.grad = None
    assert held(small) == 4000


def test_without_a_graph_no_activation_stays(small):
    leaf = torch.ones(1000, device=small, requires_grad=True)
    with torch.no_grad():
        out = leaf.exp().exp().sum()
    assert held(small) == 4000 + out.nbytes


def test_a_module_that_moves_leaves_nothing_behind(devs):
    model = nn.Linear(100, 10).to(devs[0])
    assert held(devs[0]) == 4 * (1000 + 10)
    model.to(devs[1])
    assert (held(devs[0]), held(devs[1])) == (0, 4040)
    model.to("cpu")
    assert held(devs[1]) == 0


def test_all_is_freed_at_once_and_not_by_the_garbage_collector(small):
    gc.disable()
    try:
        model = nn.Sequential(nn.Linear(100, 100), nn.Dropout()).to(small)
        model(torch.ones(20, 100, device=small)).sum().backward()
        del model
        assert held(small) == 0
    finally:
        gc.enable()


# --- kinds


def test_memory_counts_the_kinds_that_a_walk_finds(small):
    model = nn.Linear(300, 200).to(small)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        trained(model, small, optimizer)
    batch = torch.ones(64, 300, device=small)
    out = model(batch).relu()
    found = memory(model, optimizer).held["vgpu:0"]
    assert found == machine.places[0].account.by_kind()
    assert list(found) == list(KINDS) and sum(found.values()) == held(small)
    size = 4 * (300 * 200 + 200)
    assert found["parameters"] == found["gradients"] == size
    assert 2 * size <= found["optimizer state"] <= 2 * size + 16
    assert found["activations"] >= batch.nbytes + out.nbytes


def test_gradients_count_as_such_before_any_step_of_an_optimizer(small):
    model = nn.Linear(300, 200).to(small)
    model(torch.ones(5, 300, device=small)).sum().backward()
    found = memory(model).held["vgpu:0"]
    assert found["gradients"] == found["parameters"] == 4 * (300 * 200 + 200)
    assert found["activations"] == 0


def test_each_device_has_its_own_kinds_and_capacity(virtual):
    devs = virtual(3, "1 MB")
    model = nn.Sequential(nn.Linear(10, 20).to(devs[0]), nn.Linear(20, 1).to(devs[1]))
    found = memory(model)
    assert [found.held[f"vgpu:{n}"]["parameters"] for n in range(3)] == [880, 84, 0]
    assert found.capacity == dict.fromkeys(("vgpu:0", "vgpu:1", "vgpu:2"), MB)
    assert found.source == "counted on virtual GPUs"
    assert "parameters" in found._repr_html_()


def test_the_changes_of_a_trace_add_up_to_what_is_held(small):
    model = nn.Linear(300, 200).to(small)
    optimizer = torch.optim.Adam(model.parameters())
    with trace() as result:
        trained(model, small, optimizer)
        kept = torch.ones(50, device=small)
    totals = dict.fromkeys(KINDS, 0)
    for change in result.memory:
        totals[change.kind] += change.bytes
    assert totals == machine.places[0].account.by_kind()
    assert sum(totals.values()) == held(small) and kept.nbytes == 200


def test_the_changes_of_a_trace_never_go_below_zero_or_above_the_peak(small):
    model = nn.Linear(300, 200).to(small)
    torch.vgpu.reset_peak_memory_stats(small)
    with trace() as result:
        for _ in range(2):
            trained(model, small, torch.optim.SGD(model.parameters(), 0.1))
    level, most = 0, 0
    for change in result.memory:
        level += change.bytes
        most = max(most, level)
        assert level >= 0
    assert result.memory[0].time == 0
    assert 0 < most <= torch.vgpu.max_memory_allocated(small)
