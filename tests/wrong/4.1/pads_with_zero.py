# hint: sample 0 alone
def shard_indices(num_samples, rank, world_size):
    indices = list(range(num_samples))
    while len(indices) % world_size != 0:
        indices.append(0)
    return indices[rank::world_size]
