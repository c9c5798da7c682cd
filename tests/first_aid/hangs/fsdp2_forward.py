# says: waits in the forward of a sharded model
# says: waits in barrier
# ruff: noqa: F821  names are those of the test's CELL
from torch.distributed.fsdp import fully_shard


def evaluate(rank, world_size):
    mesh = dist.init_device_mesh("cpu", (world_size,))
    model = fully_shard(nn.Linear(4, 2), mesh=mesh)
    if rank == 0:
        with torch.no_grad():
            model(torch.ones(3, 4))
    dist.barrier()


cl.launch(evaluate, world_size=2)
