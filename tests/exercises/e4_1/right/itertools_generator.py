from itertools import cycle, islice


def shard_indices(num_samples, rank, world_size):
    share = -(-num_samples // world_size)
    yield from islice(cycle(range(num_samples)), rank, share * world_size, world_size)
