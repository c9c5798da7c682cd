# mistake: The curve is straight over 1 / B, not over B.
# same as: over_the_batch.py
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    slope, least = np.polyfit(sizes, counts, 1)
    return least, slope / least
