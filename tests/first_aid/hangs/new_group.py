# says: waits in new_group
# says: waits in barrier
# ruff: noqa: F821  names are those of the test's CELL
def groups(rank, world_size):
    dist.init_process_group("gloo")
    if rank == 0:
        dist.new_group([0, 1])
    dist.barrier()


cl.launch(groups, world_size=2)
