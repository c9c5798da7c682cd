# hint: different numbers of samples
# same as: slice_without_padding.py
def shard_indices(num_samples, rank, world_size):
    return list(range(rank, num_samples, world_size))
