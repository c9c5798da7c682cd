# hint: repeating the last sample
def shard_indices(num_samples, rank, world_size):
    indices = list(range(num_samples))
    while len(indices) % world_size:
        indices.append(indices[-1])
    return indices[rank::world_size]
