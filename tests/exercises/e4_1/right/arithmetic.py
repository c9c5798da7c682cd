def shard_indices(n, r, w):
    import math

    return [(r + w * i) % n for i in range(math.ceil(n / w))]
