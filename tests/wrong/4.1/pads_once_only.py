# hint: several times
def shard_indices(num_samples, rank, world_size):
    indices = list(range(num_samples))
    extra = -num_samples % world_size
    indices += indices[:extra]
    return indices[rank::world_size]
