"""Memory of virtual GPUs: counted by storage, freed at once, refused when full."""

import copy
import gc
import io
import pickle

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

import course_lib as cl
from course_lib.accelerators.memory import KINDS
from course_lib.accelerators.memory_by_kind import memory
from course_lib.accelerators.vgpu.tensors import new_tensor
from course_lib.accelerators.virtual import machine
from course_lib.clusters.fake_ranks import fake_ranks
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


# --- storages that are resized, as FSDP does


def test_an_emptied_storage_holds_nothing_until_it_is_filled_again(small):
    tensor = torch.ones(100, device=small)
    view = tensor[10:]
    assert view.untyped_storage().resize_(0).nbytes() == held(small) == 0
    assert tensor.untyped_storage().size() == 0 and tensor.shape == (100,)
    tensor.untyped_storage().resize_(400)
    assert held(small) == 400 and tensor.fill_(2).sum() == 200 and view.sum() == 180
    del tensor
    assert held(small) == 400
    del view
    assert held(small) == 0


def test_a_storage_that_grows_needs_room_beside_its_own_as_on_cuda(small):
    tensor = torch.ones(100, device=small)
    torch.vgpu.reset_peak_memory_stats(small)
    storage = tensor.untyped_storage().resize_(800)
    assert (held(small), torch.vgpu.max_memory_allocated(small)) == (800, 1200)
    assert tensor.sum() == 100
    storage.resize_(400)
    assert held(small) == 400


def test_a_storage_that_cannot_grow_stays_as_it_is(small):
    tensor = torch.ones(MB, device=small)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        tensor.untyped_storage().resize_(8 * MB)
    assert "Tried to allocate 7.63 MiB" in str(caught.value)
    assert "activations 3.81 MiB" in str(caught.value)
    assert held(small) == tensor.untyped_storage().nbytes() == 4 * MB
    assert tensor.sum() == MB
    tensor.untyped_storage().resize_(0)
    tensor.untyped_storage().resize_(8 * MB)
    assert held(small) == 8 * MB


@pytest.mark.parametrize("count", [-1, 2.5, "many", None])
def test_a_size_that_is_none_changes_nothing(small, count):
    tensor = torch.ones(100, device=small)
    with pytest.raises((RuntimeError, TypeError)):
        tensor.untyped_storage().resize_(count)
    assert held(small) == tensor.untyped_storage().nbytes() == 400


def test_memory_that_cannot_be_resized_changes_nothing(small):
    elem = torch.from_numpy(np.ones(100, np.float32))
    tensor = new_tensor(elem, machine.places[0])
    with pytest.raises(RuntimeError, match="not resizable"):
        tensor.untyped_storage().resize_(800)
    assert held(small) == 400


def test_a_storage_counts_as_long_as_it_lives(small):
    storage = torch.ones(100, device=small).untyped_storage()
    assert held(small) == 400
    storage.resize_(800)
    assert held(small) == 800
    tensor = torch.empty(0, device=small).set_(storage, 0, (200,))
    assert held(small) == 800 and tensor[:100].sum() == 100
    del storage, tensor
    assert held(small) == 0


def test_tensors_that_are_set_to_one_storage_count_once(small):
    tensor = torch.ones(100, device=small)
    same = torch.empty(0, device=small).set_(tensor)
    assert held(small) == same.nbytes == 400
    rest = tensor[10:]
    tensor.resize_(1000)
    assert held(small) == 4000 and rest.sum() == 90


def test_a_tensor_travels_after_somebody_has_seen_its_storage(small):
    tensor = torch.ones(100, device=small)
    storage = tensor.untyped_storage()
    assert torch.is_storage(storage) and type(storage) is torch.UntypedStorage
    torch.save(storage, io.BytesIO())
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    copies = [
        torch.load(file),
        pickle.loads(pickle.dumps(tensor)),
        copy.deepcopy(tensor),
        tensor.clone(),
    ]
    assert all(each.device == small and each.sum() == 100 for each in copies)
    assert held(small) == 400 * (1 + len(copies))
    storage.resize_(0)  # of this tensor alone
    assert held(small) == 400 * len(copies)
    plain = copy.deepcopy(copies[0].untyped_storage())  # on the CPU, as ever
    assert plain.resize_(0).nbytes() == 0 and held(small) == 400 * len(copies)


def test_what_is_freed_is_refused_and_does_not_end_the_process(small):
    tensor, other = torch.ones(2, 3, device=small), torch.ones(3, device=small)
    tensor.untyped_storage().resize_(0)
    for use in (
        lambda: tensor @ other,
        lambda: torch.cat([tensor, tensor]),
        lambda: tensor.view(-1).zero_(),
        lambda: tensor.cpu(),
        lambda: pickle.dumps(tensor),
        lambda: copy.deepcopy(tensor),
    ):
        with pytest.raises(RuntimeError, match="on vgpu:0 whose memory is freed"):
            use()
    assert repr(tensor) == "tensor(freed, device='vgpu:0')"
    assert torch.zeros_like(tensor).sum() == 0 and tensor.view(-1).shape == (6,)
    tensor.untyped_storage().resize_(24)
    assert (tensor.fill_(1) @ other).tolist() == [3, 3]


def test_memory_keeps_its_kind_when_it_is_freed_and_taken(small):
    weight = nn.Parameter(torch.ones(100, device=small))
    with trace() as result:
        weight.untyped_storage().resize_(0)
        weight.untyped_storage().resize_(400)
    changes = [change.bytes for change in result.memory if change.bytes]
    assert changes == [400, -400, 400]
    assert {change.kind for change in result.memory} == {"parameters"}
    assert machine.places[0].account.by_kind()["parameters"] == 400


# --- sharded models


def layers(device):
    """Two layers that are gathered one by one, and one that belongs to the root."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    sizes = (30, 40), (40, 20), (20, 30)
    model = nn.Sequential(*(nn.Linear(*size) for size in sizes)).to(device)
    mesh = dist.init_device_mesh(device.type, (2,))
    for part in (model[0], model[1], model):
        fully_shard(part, mesh=mesh)
    return model


WEIGHTS = [4 * (30 * 40 + 40), 4 * (40 * 20 + 20), 4 * (20 * 30 + 30)]  # bytes
SHARE = sum(WEIGHTS) // 2
BATCH = 4 * 5 * 30


@pytest.fixture
def sharded(small):
    """The model above on one of two ranks; the other one is not there."""
    with fake_ranks(2):
        yield layers(small)


def test_of_a_sharded_model_counts_what_this_rank_holds(sharded, small):
    optimizer = torch.optim.AdamW(sharded.parameters())
    batch = torch.ones(5, 30, device=small)
    found = [memory(sharded, optimizer)]
    loss = sharded(batch).sum()
    found += [memory(sharded, optimizer)]
    loss.backward()
    found += [memory(sharded, optimizer)]
    optimizer.step()
    found += [memory(sharded, optimizer)]
    # the root's weights stay gathered until they are needed again
    sizes = [SHARE, SHARE + WEIGHTS[2], SHARE, SHARE]
    assert [each.held["vgpu:0"]["parameters"] for each in found] == sizes
    sizes = [0, 0, SHARE, SHARE]
    assert [each.held["vgpu:0"]["gradients"] for each in found] == sizes
    sizes = [0, 0, 0, 2 * SHARE]
    assert [each.held["vgpu:0"]["optimizer state"] for each in found] == sizes
    assert found[-1].held["vgpu:0"] == machine.places[0].account.by_kind()
    assert sum(found[-1].held["vgpu:0"].values()) == held(small) and batch.nbytes == 600


def test_what_fsdp_gathers_and_reduces_has_its_kind_in_a_trace(sharded, small):
    optimizer = torch.optim.SGD(sharded.parameters(), 0.1, momentum=0.9)
    batch = torch.ones(5, 30, device=small)
    with trace() as result:
        sharded(batch).sum().backward()
        optimizer.step()
    taken = {kind: [] for kind in KINDS}
    for change in result.memory:
        if change.bytes > 0:
            taken[change.kind].append(change.bytes)
    # gathered for forward, but for the root again for backward
    weight = 4 * 30 * 40
    assert taken["parameters"].count(weight) == 2
    assert weight in taken["gradients"] and weight not in taken["activations"]
    assert max(taken["activations"]) <= 4 * 5 * 40
    assert sum(taken["optimizer state"]) == SHARE
    levels = dict.fromkeys(KINDS, 0)
    for change in result.memory:
        levels[change.kind] += change.bytes
        assert levels[change.kind] >= 0
    assert levels == memory(sharded, optimizer).held["vgpu:0"]
    assert levels["activations"] == batch.nbytes


def steps(rank, world_size):
    """What a rank of two holds in a step of a sharded model: after each part of it."""
    [device] = cl.devices(1, quiet=True)
    dist.init_process_group("gloo")
    model = layers(device)
    held = [torch.vgpu.memory_allocated(device)]
    batch = torch.ones(5, 30, device=device)
    for _ in range(2):
        loss = model(batch).sum()
        held.append(torch.vgpu.memory_allocated(device))
        loss.backward()
        held.append(torch.vgpu.memory_allocated(device))
        model.zero_grad()
        del loss
        held.append(torch.vgpu.memory_allocated(device))
    torch.vgpu.reset_peak_memory_stats(device)
    with torch.no_grad():
        model(batch)
    return held, torch.vgpu.max_memory_allocated(device)


def test_after_forward_a_rank_holds_its_share_and_what_the_root_keeps():
    graph = 4 * 5 * (40 + 20) + 4  # two activations and the loss
    step = [
        SHARE + BATCH + WEIGHTS[2] + graph,
        SHARE + BATCH + SHARE + 4,  # gradients
        SHARE + BATCH,
    ]
    for held, peak in cl.launch(steps, world_size=2):
        assert held == [SHARE, *step, *step]
        assert peak < SHARE + BATCH + 2 * sum(WEIGHTS)
