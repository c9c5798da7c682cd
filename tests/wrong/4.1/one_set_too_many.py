# hint: divide evenly
def shard_indices(num_samples, rank, world_size):
    # // and + 1 instead of rounding up
    length = (num_samples // world_size + 1) * world_size
    padded = [i % num_samples for i in range(length)]
    return padded[rank::world_size]
