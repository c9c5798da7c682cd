def find_crossing(seconds, n):
    sizes, times = np.array(list(seconds)), np.array(list(seconds.values()))
    beta, alpha = np.polyfit(sizes, times, 1, w=1 / times)
    depth = math.ceil(math.log2(n))
    crossing = (n - 1 - depth) * alpha / ((depth - (n - 1) / n) * beta)
    return alpha, beta, crossing
