# hint: returns nothing
def shard_indices(num_samples, rank, world_size):
    length = -(-num_samples // world_size) * world_size
    print([i % num_samples for i in range(length)][rank::world_size])
