def find_knee(steps):
    """Try all knees; the best has the smallest spread of the logarithms."""
    best = None
    for i in range(10001):
        knee = 10 ** (6 * i / 10000 - 1)
        logs = [math.log(s) - math.log(1 + knee / B) for B, s in steps.items()]
        mean = sum(logs) / len(logs)
        error = sum((x - mean) ** 2 for x in logs)
        if best is None or error < best[0]:
            best = error, math.exp(mean), knee
    _, least, knee = best
    return int(round(least)), int(round(knee))
