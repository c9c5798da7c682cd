# hint: the last one is short
# same as: blocks_last_short.py
def shard_indices(num_samples, rank, world_size):
    parts = torch.arange(num_samples).chunk(world_size)
    return parts[rank].tolist() if rank < len(parts) else []
