import numpy as np


def shard_indices(num_samples, rank, world_size):
    total = int(np.ceil(num_samples / world_size)) * world_size
    return np.resize(np.arange(num_samples), total)[rank::world_size]
