def right_neighbour(rank, world_size):
    return range(world_size)[rank + 1 - world_size]
