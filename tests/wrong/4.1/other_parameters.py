# hint: Keep the parameters
def shard_indices(num_samples, rank):
    return list(range(num_samples))[rank::4]
