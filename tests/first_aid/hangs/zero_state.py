# says: consolidate_state_dict
# says: waits in barrier
# ruff: noqa: F821  names are those of the test's CELL
from torch.distributed.optim import ZeroRedundancyOptimizer


def save(rank, world_size):
    dist.init_process_group("gloo")
    model = nn.Linear(4, 2)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)
    if rank == 0:
        optimizer.consolidate_state_dict()
    dist.barrier()


cl.launch(save, world_size=2)
