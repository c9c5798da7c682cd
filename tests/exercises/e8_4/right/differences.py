def efficiency(seconds, gpus):
    """The differences of times have no c; b falls out of two of them."""
    first, second, third = sorted(n // 8 for n in seconds if n > 8)

    def sent(nodes):
        return 2 * (nodes - 1) / nodes

    def steps(nodes):
        return 2 * (nodes - 1)

    low = seconds[8 * second] - seconds[8 * first]
    high = seconds[8 * third] - seconds[8 * second]
    share = (sent(third) - sent(second)) / (sent(second) - sent(first))
    more = steps(third) - steps(second) - share * (steps(second) - steps(first))
    a = (high - share * low) / more
    b = (low - a * (steps(second) - steps(first))) / (sent(second) - sent(first))
    N = gpus // 8
    grown = a * (steps(N) - steps(third)) + b * (sent(N) - sent(third))
    return min(seconds.items())[1] / (seconds[8 * third] + grown)
