def shard_indices(num_samples, rank, world_size):
    indices = list(range(num_samples))
    k = 0
    while len(indices) % world_size != 0:
        indices.append(k % num_samples)
        k += 1
    return [indices[i] for i in range(len(indices)) if i % world_size == rank]
