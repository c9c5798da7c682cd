# mistake: A straight line in both logarithms has no bend: its steps fall to 0.
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    slope, constant = np.polyfit(np.log(sizes), np.log(counts), 1)
    return np.exp(constant), -slope
