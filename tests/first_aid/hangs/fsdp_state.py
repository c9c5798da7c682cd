# says: state_dict
# says: waits in barrier
# ruff: noqa: F821  names are those of the test's CELL
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def save(rank, world_size):
    dist.init_process_group("gloo")
    model = FSDP(nn.Linear(4, 2), device_id=torch.device("cpu"))
    if rank == 0:
        torch.save(model.state_dict(), "model.pt")
    dist.barrier()


cl.launch(save, world_size=2)
