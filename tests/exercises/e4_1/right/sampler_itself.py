def shard_indices(num_samples, rank, world_size):
    sampler = DistributedSampler(
        range(num_samples), num_replicas=world_size, rank=rank, shuffle=False
    )
    return list(sampler)
