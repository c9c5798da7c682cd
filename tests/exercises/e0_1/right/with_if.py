def right_neighbour(rank, world_size):
    if rank == world_size - 1:
        return 0
    return rank + 1
