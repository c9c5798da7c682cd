# mistake: These are blocks of neighbours. DistributedSampler deals like cards: one to
#   each rank in turn.
import math


def shard_indices(num_samples, rank, world_size):
    per_rank = math.ceil(num_samples / world_size)
    indices = list(range(num_samples))
    while len(indices) < per_rank * world_size:
        indices += indices[: per_rank * world_size - len(indices)]
    return indices[rank * per_rank : (rank + 1) * per_rank]
