def shard_indices(num_samples, rank, world_size):
    # as in the sources of DistributedSampler
    import math

    indices = list(range(num_samples))
    total_size = math.ceil(len(indices) / world_size) * world_size
    padding_size = total_size - len(indices)
    if padding_size <= len(indices):
        indices += indices[:padding_size]
    else:
        indices += (indices * math.ceil(padding_size / len(indices)))[:padding_size]
    print(f"rank {rank}: {len(indices)} with padding")
    return indices[rank:total_size:world_size]
