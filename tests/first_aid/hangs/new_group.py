# says: new_group
# ruff: noqa: F821  names are those of the test's CELL
def groups(rank, world_size):
    dist.init_process_group("gloo")
    group = dist.new_group([0, 3] if rank in (0, 3) else [1, 2])
    dist.all_reduce(torch.ones(1), group=group)
    dist.barrier()


cl.launch(groups, world_size=4)
