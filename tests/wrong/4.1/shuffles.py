# hint: without shuffling
def shard_indices(num_samples, rank, world_size):
    return list(DistributedSampler(range(num_samples), world_size, rank))
