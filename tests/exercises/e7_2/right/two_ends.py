def find_crossing(seconds, n):
    """A line through the smallest and the largest message."""
    least, most = min(seconds), max(seconds)
    beta = (seconds[most] - seconds[least]) / (most - least)
    alpha = seconds[least] - beta * least

    def ring(size):
        return 2 * (n - 1) * (alpha + beta * size / n)

    def tree(size):
        return 2 * math.ceil(math.log2(n)) * (alpha + beta * size)

    # halve the interval in which the tree stops being faster
    low, high = 0.0, 1.0
    while tree(high) < ring(high):
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if tree(middle) < ring(middle) else (low, middle)
    return alpha, beta, low
