# hint: You deal to 2 ranks
def shard_indices(num_samples, rank, world_size):
    length = -(-num_samples // 2) * 2
    padded = [i % num_samples for i in range(length)]
    return padded[rank::2]
