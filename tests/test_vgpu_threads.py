"""Threads and nn.DataParallel on virtual GPUs."""

import threading
import warnings

import pytest
import torch
from torch import nn
from torch.nn import parallel
from torch.testing import assert_close

from course_lib.tracing.device_trace import trace
from tests.test_vgpu_modules import built, cnn, mlp, on_cpu


def together(work, count=8):
    """Run `work(number)` in threads that start at one moment; raise what one raised."""
    start, errors = threading.Barrier(count), []

    def run(number):
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_what_threads_take_and_free_adds_up_to_nothing(devs):
    before = [torch.vgpu.memory_allocated(device) for device in devs]

    def work(number):
        for size in range(1, 120):
            kept = torch.ones(size, device=devs[number % 3])
            kept = (kept * 2 + kept).to(devs[(number + 1) % 3])
            assert kept.sum().item() == 3 * size

    together(work)
    assert [torch.vgpu.memory_allocated(device) for device in devs] == before


def test_threads_run_backward_at_the_same_time(devs):
    def work(number):
        device = devs[number % 3]
        for _ in range(20):
            leaf = torch.ones(4, device=device, requires_grad=True)
            (leaf * number).exp().log().sum().backward()
            assert_close(leaf.grad.cpu(), torch.full((4,), float(number)))

    together(work)


def test_an_error_in_the_backward_of_a_thread_stays_in_it(devs):
    def work(number):
        leaf = torch.ones(2, device=devs[number % 3], requires_grad=True)
        product = leaf * number
        if number == 5:
            product.register_hook(lambda slope: slope + torch.ones(2).exp())
        for _ in range(10):
            try:
                product.sum().backward(retain_graph=True)
                assert number != 5, "no error"
            except RuntimeError as error:
                assert number == 5 and "same device" in str(error)

    together(work)


def test_each_thread_has_a_current_device_of_its_own(devs):
    def work(number):
        torch.vgpu.set_device(number % 3)
        for _ in range(50):
            assert torch.ones(1, device="vgpu").device == devs[number % 3]
            assert torch.vgpu.current_device() == number % 3

    together(work)
    assert torch.ones(1, device="vgpu").device == devs[0]


def test_memory_never_exceeds_the_capacity_however_many_threads_ask(virtual):
    device, peaks = virtual(1, "1 MB")[0], []

    def work(number):
        for _ in range(3):
            try:
                kept = torch.ones(50_000, device=device) * 2
                peaks.append(torch.vgpu.memory_allocated(device))
                assert kept is not None
            except torch.OutOfMemoryError:
                pass

    together(work)
    assert peaks and max(peaks) <= 1e6
    assert torch.vgpu.max_memory_allocated(device) <= 1e6


# --- nn.DataParallel


@pytest.mark.parametrize("make", [mlp, cnn])
def test_data_parallel_gives_the_gradients_of_each_part(devs, make):
    # batch norm sees the part of one device only, as on CUDA
    batch = torch.randn(6, 4) if make is mlp else torch.randn(6, 1, 8, 8)
    want, got = built(make), built(make, devs[0])
    sum(want(part).square().sum() for part in batch.chunk(3)).backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = nn.DataParallel(got, device_ids=devs)(batch.to(devs[0]))
        out.square().sum().backward()
    assert out.device == devs[0]
    slopes = [on_cpu(p.grad for p in model.parameters()) for model in (got, want)]
    assert_close(*slopes)


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_data_parallel_takes_any_number_of_rows(devs, rows):
    model = built(lambda: nn.Linear(4, 2), devs[0])
    batch = torch.randn(rows, 4)
    out = nn.DataParallel(model, device_ids=[0, 1, 2])(batch)
    assert_close(out.cpu(), model(batch.to(devs[0])).cpu())


def test_data_parallel_refuses_a_model_that_is_elsewhere(devs):
    wrapped = nn.DataParallel(nn.Linear(2, 2).to(devs[1]), device_ids=devs)
    with pytest.raises(RuntimeError, match="must have its parameters and buffers on"):
        wrapped(torch.ones(3, 2))


def test_an_error_in_a_replica_names_it(devs):
    class Fails(nn.Linear):
        def forward(self, x):
            if x.device.index == 2:
                raise ValueError("stop here")
            return super().forward(x)

    wrapped = nn.DataParallel(Fails(2, 2).to(devs[0]), device_ids=devs)
    with pytest.raises(ValueError, match="(?s)replica 2 on device 2.*stop here"):
        wrapped(torch.ones(3, 2, device=devs[0]))


def test_the_parts_of_data_parallel_work_one_by_one(devs):
    model, batch = built(mlp, devs[0]).eval(), torch.randn(6, 4, device=devs[0])
    parts = parallel.scatter(batch, devs)
    replicas = parallel.replicate(model, devs)
    assert [part.device for part in parts] == devs
    assert [r[0].weight.device for r in replicas] == devs
    outputs = parallel.parallel_apply(replicas, parts)
    out = parallel.gather(outputs, devs[2])
    assert out.device == devs[2]
    assert_close(out.cpu(), model(batch).cpu())


def test_the_copies_of_comm_take_numbers_and_devices(devs):
    comm, one = parallel.comm, torch.arange(6.0, device=devs[0])
    assert [t.device for t in comm.broadcast(one, [0, 1, 2])] == devs
    parts = comm.scatter(one, devs, chunk_sizes=[3, 2, 1])
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4], [5]]
    assert comm.gather(parts, destination=1).device == devs[1]
    assert comm.gather(parts, destination=-1).tolist() == one.tolist()
    total = comm.reduce_add([one, one.to(devs[1]), one.to(devs[2])], 2)
    assert total.device == devs[2] and total.tolist() == [0, 3, 6, 9, 12, 15]
    assert one.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("root", [0, 1, 2])
def test_a_reduce_ends_at_any_root_and_leaves_its_inputs(devs, root):
    parts = [torch.full((5,), 10.0**i, device=device) for i, device in enumerate(devs)]
    with trace() as recorded:
        total = parallel.comm.reduce_add(parts, root)
    assert total.device == devs[root] and total.tolist() == [111] * 5
    assert [part[0].item() for part in parts] == [1, 10, 100]
    sources = [copy.source for copy in recorded.transfers]
    assert len(sources) == 2 and str(devs[root]) not in sources


def test_what_nccl_does_not_take_is_copied_one_by_one(devs):
    x = torch.arange(6.0, device=devs[0]).view(2, 3)
    for tensor, places in ((x.T, devs), (x, [devs[0], devs[1], devs[1]])):
        with trace() as recorded:
            copies = parallel.comm.broadcast(tensor, places)
        assert {copy.source for copy in recorded.transfers} == {"vgpu:0"}
        assert all(copy.tolist() == tensor.tolist() for copy in copies)


def test_a_copy_of_a_broadcast_has_its_own_memory(devs):
    x = torch.ones(3, device=devs[0])
    first, second, third = parallel.comm.broadcast(x, devs)
    second.add_(1)
    assert first is x and [x.tolist(), third.tolist()] == [[1, 1, 1]] * 2
    assert torch.vgpu.memory_allocated(devs[1]) == x.nbytes


@pytest.mark.parametrize("nccl", [True, False])
def test_a_step_has_the_same_gradients_with_and_without_nccl(virtual, nccl):
    devs = virtual(3, nccl=nccl)
    batch = torch.randn(7, 4)
    want, got = (built(lambda: nn.Linear(4, 2), place) for place in ("cpu", devs[0]))
    want(batch).square().sum().backward()
    nn.DataParallel(got, device_ids=devs)(batch).square().sum().backward()
    assert_close(*[on_cpu(p.grad for p in m.parameters()) for m in (got, want)])


def test_many_tensors_are_broadcast_in_few_copies(devs):
    tensors = [torch.full((3,), float(n), device=devs[0]) for n in range(5)]
    copies = parallel.comm.broadcast_coalesced(tensors, devs)
    assert [[t.tolist() for t in own] for own in copies] == [
        [t.tolist() for t in tensors]
    ] * 3
    assert [own[4].device for own in copies] == devs


def test_nothing_is_left_of_the_replicas(devs):
    model = built(mlp, devs[0])
    before = [torch.vgpu.memory_allocated(device) for device in devs]
    out = nn.DataParallel(model, device_ids=devs)(torch.randn(6, 4)).sum()
    assert torch.vgpu.memory_allocated(devs[1]) > before[1]
    out.backward()
    model.zero_grad()
    del out
    assert [torch.vgpu.memory_allocated(device) for device in devs] == before
