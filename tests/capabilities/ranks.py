"""Virtual GPUs in the ranks of a launch: each has its own, and gloo carries tensors."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

import course_lib as cl
from tests.capabilities.rows import absent, refused, works

devices = cl.devices  # by this name a function of a rank finds it


def on_ranks(work):
    """What `work(rank, device)` gives on two ranks, in a group, each on its device."""

    def started(rank, world_size):
        device = devices(world_size, quiet=True)[rank]
        torch.accelerator.set_device_index(rank)
        kind = torch.accelerator.current_accelerator()
        dist.init_process_group(
            dist.get_default_backend_for_device(kind), device_id=device
        )
        return work(rank, device)

    return list(cl.launch(started, world_size=2))


@works(
    "`dist.init_process_group()`, also with `device_id=`,"
    " `dist.get_default_backend_for_device(device)`",
    "The backend of virtual GPUs is gloo, and the group serves the CPU, too. Call"
    " `cl.devices(world_size)` in each rank first.",
)
def groups(devs):
    def sums(rank, device):
        there, here = torch.ones(2, device=device), torch.ones(2)
        dist.all_reduce(there), dist.all_reduce(here)
        dist.destroy_process_group()
        dist.init_process_group()
        dist.all_reduce(there)
        return there, here, dist.get_backend(), str(there.device)

    for rank, (there, here, backend, device) in enumerate(on_ranks(sums)):
        assert there.tolist() == [4, 4] and here.tolist() == [2, 2]
        assert (backend, device) == ("gloo", f"vgpu:{rank}")


@works(
    "collectives, `send` and `recv`, `batch_isend_irecv`, `barrier(device_ids=[rank])`",
    "They take tensors of virtual GPUs, and their results are there.",
)
def messages(devs):
    def talk(rank, device):
        x, other = torch.full((2,), rank + 1.0, device=device), 1 - rank
        empty = torch.zeros_like
        got, parts = empty(x), [empty(x), empty(x)]
        ops = [dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, got, other)]
        for handle in dist.batch_isend_irecv(ops):
            handle.wait()
        dist.all_gather(parts, x)
        shard = empty(x[:1])
        dist.reduce_scatter(shard, list(x.chunk(2)))
        swapped = empty(x)
        dist.all_to_all_single(swapped, x)
        dist.broadcast(x, 1)
        dist.barrier(device_ids=[rank])
        results = [got, torch.cat(parts), shard, swapped, x]
        assert {tensor.device for tensor in results} == {device}
        return [tensor.tolist() for tensor in results]

    rest = [1, 1, 2, 2], [3], [1, 2], [2, 2]
    assert on_ranks(talk) == [[[2 - rank] * 2, *rest] for rank in range(2)]


def build():
    """The same model on each rank, and in the notebook."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))


def gradients(model, x):
    """All gradients of one backward, as whole tensors of the CPU."""
    model(x).square().sum().backward()
    found = [parameter.grad for parameter in model.parameters()]
    return [getattr(grad, "full_tensor", lambda g=grad: g)().cpu() for grad in found]


def check_gradients(wrap):
    """Check a way to spread a model over ranks: gradients are those of one process."""
    x = torch.arange(8.0).reshape(2, 4)
    wanted = gradients(build(), x)
    make, collect = build, gradients

    def work(rank, device):
        return collect(wrap(make().to(device), rank, device), x.to(device))

    for found in on_ranks(work):
        assert_close(found, wanted)


@works(
    "DDP with `device_ids=[device]` or `[rank]`",
    "Gradients are those of one process on the CPU.",
)
def ddp(devs):
    wrapper = DistributedDataParallel
    check_gradients(lambda net, rank, device: wrapper(net, device_ids=[device]))
    check_gradients(lambda net, rank, device: wrapper(net, device_ids=[rank]))


@works(
    "FSDP2 (`fully_shard`) and tensor parallelism (`parallelize_module`)",
    "Also `init_device_mesh` and DTensor. Gradients are those of one process. What FSDP"
    " gathers counts as parameters until it frees it; of a DTensor counts what the rank"
    " holds. As on CUDA, fully_shard takes the current device: call"
    " `torch.accelerator.set_device_index(rank)` first.",
)
def sharded(devs):
    def fsdp(net, rank, device):
        from torch.distributed.fsdp import fully_shard

        for layer in (net[0], net[2], net):
            fully_shard(layer)
        return net

    def parallel(net, rank, device):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import parallel

        mesh = init_device_mesh(device.type, (2,))
        ways = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
        return parallel.parallelize_module(net, mesh, ways)

    check_gradients(fsdp)
    check_gradients(parallel)
    make = build

    def held(rank, device):
        from torch.distributed.fsdp import fully_shard

        module = torch.get_device_module(device)
        net = make().to(device)
        for layer in (net[0], net[2]):
            fully_shard(layer, reshard_after_forward=True)
        x = torch.ones(3, 4, device=device)
        before = module.memory_allocated(device) - x.nbytes
        with torch.no_grad():
            out = net(x)
        after = module.memory_allocated(device) - x.nbytes - out.nbytes
        return before, after

    share = sum(p.nbytes for p in build().parameters()) // 2
    assert on_ranks(held) == [(share, share)] * 2


@refused(
    "random numbers of a DTensor: dropout or `reset_parameters` after `fully_shard`",
    "virtual GPUs cannot draw random numbers shard by shard: fill parameters before"
    " fully_shard or parallelize_module, and leave out dropout between them.",
)
def random_shards(devs):
    def draw(rank, device):
        from torch.distributed.fsdp import fully_shard

        net = fully_shard(nn.Linear(4, 4).to(device))
        net.reset_parameters()

    on_ranks(draw)


@refused(
    "`nn.SyncBatchNorm`",
    "SyncBatchNorm needs GPUs: leave convert_sync_batchnorm out here.",
)
def synchronized(devs):
    def norm(rank, device):
        nn.SyncBatchNorm(4).to(device)(torch.ones(2, 4, device=device))

    on_ranks(norm)


@refused(
    "`batch_isend_irecv` in a group that was made before `cl.devices`",
    "No backend type associated with device type vgpu",
    "Call `cl.devices` before `init_process_group`.",
)
def late(devs):
    def work(rank, world_size):
        dist.init_process_group("gloo")
        x = torch.ones(2, device=devices(world_size, quiet=True)[rank])
        dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1 - rank)])

    cl.launch(work, world_size=2)


@absent(
    "`work.get_future()`, in a communication hook of DDP",
    "Its value holds the numbers on the CPU: move them by `.to(device)`.",
)
def futures(devs):
    def kind(rank, device):
        work = dist.all_reduce(torch.ones(2, device=device), async_op=True)
        (found,) = work.get_future().wait()
        return found.device.type, found.to(device).device == device

    assert on_ranks(kind) == [("cpu", True)] * 2


@absent(
    "how long a collective between ranks takes",
    "The clock knows no link between ranks: a collective costs its device the bytes"
    " that it reads.",
)
def links(devs):
    def spent(rank, device):
        module = torch.get_device_module(device)
        start, stop = (module.Event(enable_timing=True) for _ in range(2))
        x = torch.ones(10_000_000, device=device)
        start.record()
        dist.all_reduce(x)
        stop.record()
        module.synchronize()
        return start.elapsed_time(stop)

    wire = 40e6 / 300e9 * 1e3  # ms of an NVLink3, one way
    for found in on_ranks(spent):
        assert found < wire
