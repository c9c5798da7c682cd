def shard_indices(num_samples, rank, world_size):
    """A tensor instead of a list."""
    rows = (num_samples + world_size - 1) // world_size
    return (torch.arange(rows * world_size) % num_samples).view(rows, world_size)[
        :, rank
    ]
