from itertools import combinations
from statistics import median


def find_crossing(seconds, n):
    """The median of the slopes of all pairs, the median of what is left."""
    pairs = combinations(seconds.items(), 2)
    beta = median((t - s) / (b - a) for (a, s), (b, t) in pairs)
    small = sorted(seconds)[: max(3, len(seconds) // 2)]
    alpha = median(seconds[size] - beta * size for size in small)
    depth = math.ceil(math.log2(n))
    at = round((n - 1 - depth) * alpha / (beta * (depth - 1 + 1 / n)))
    return float(alpha), float(beta), at
