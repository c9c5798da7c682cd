# hint: whole numbers from 0
# same as: float_indices.py
def shard_indices(num_samples, rank, world_size):
    length = -(-num_samples // world_size) * world_size
    for i in range(rank, length, world_size):
        return i % num_samples
