# says: full_tensor
# says: waits in barrier
# ruff: noqa: F821  names are those of the test's CELL
from torch.distributed.fsdp import fully_shard


def save(rank, world_size):
    mesh = dist.init_device_mesh("cpu", (world_size,))
    model = fully_shard(nn.Linear(4, 2), mesh=mesh)
    if rank == 0:
        torch.save(model.weight.full_tensor(), "model.pt")
    dist.barrier()


cl.launch(save, world_size=2)
