# says: dcp.save
# says: waits in barrier
# ruff: noqa: F821  names are those of the test's CELL
import torch.distributed.checkpoint as dcp


def save(rank, world_size):
    dist.init_process_group("gloo")
    if rank == 0:
        dcp.save({"weight": torch.ones(3)}, checkpoint_id="checkpoint")
    dist.barrier()


cl.launch(save, world_size=2)
