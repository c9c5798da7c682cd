# mistake: These are the steps at the knee, twice as many as the least.
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    slope, least = np.polyfit(1 / sizes, counts, 1, w=1 / counts)
    knee = slope / least
    return least * (1 + knee / knee), knee
