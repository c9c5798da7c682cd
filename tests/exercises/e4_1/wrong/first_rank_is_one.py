# mistake: Each rank has what the one before it should have. Ranks begin at 0, not at 1.
def shard_indices(num_samples, rank, world_size):
    length = -(-num_samples // world_size) * world_size
    padded = [i % num_samples for i in range(length)]
    return (
        padded[rank - 1 :: world_size] if rank else padded[world_size - 1 :: world_size]
    )
