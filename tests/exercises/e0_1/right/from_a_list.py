def right_neighbour(rank, world_size):
    ranks = list(range(world_size))
    return (ranks + ranks)[rank + 1]
