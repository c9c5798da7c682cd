# hint: The first rank is 0
def shard_indices(num_samples, rank, world_size):
    length = -(-num_samples // world_size) * world_size
    padded = [i % num_samples for i in range(length)]
    return padded[(rank + 1) % world_size :: world_size]
