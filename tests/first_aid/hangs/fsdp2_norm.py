# says: waits in clip_grad_norm_() of a DTensor
# says: waits in barrier
# ruff: noqa: F821  names are those of the test's CELL
from torch.distributed.fsdp import fully_shard


def clip(rank, world_size):
    mesh = dist.init_device_mesh("cpu", (world_size,))
    model = fully_shard(nn.Linear(4, 2), mesh=mesh)
    model(torch.ones(3, 4)).sum().backward()
    if rank == 0:
        print(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    dist.barrier()


cl.launch(clip, world_size=2)
