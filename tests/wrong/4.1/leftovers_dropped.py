# hint: You drop the samples
def shard_indices(num_samples, rank, world_size):
    per_rank = num_samples // world_size
    return [rank + i * world_size for i in range(per_rank)]
