# hint: whole numbers from 0
def shard_indices(num_samples, rank, world_size):
    length = -(-num_samples // world_size) * world_size
    return (torch.arange(float(length)) % num_samples)[rank::world_size]
