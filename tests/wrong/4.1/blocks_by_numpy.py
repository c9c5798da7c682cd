# hint: one longer than others
import numpy as np


def shard_indices(num_samples, rank, world_size):
    return np.array_split(np.arange(num_samples), world_size)[rank].tolist()
