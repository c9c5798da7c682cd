# mistake: The curve is straight over 1 / B, not over B.
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    slope, least = np.polyfit(sizes, counts, 1, w=1 / counts)
    return least, slope / least
