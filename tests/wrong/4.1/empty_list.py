# hint: empty for every rank
def shard_indices(num_samples, rank, world_size):
    return []
