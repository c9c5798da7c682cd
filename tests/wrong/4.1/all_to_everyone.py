# hint: Every rank gets everything
def shard_indices(num_samples, rank, world_size):
    return list(range(num_samples))
