# hint: the last one is short
def shard_indices(num_samples, rank, world_size):
    size = -(-num_samples // world_size)
    return list(range(num_samples))[rank * size : (rank + 1) * size]
