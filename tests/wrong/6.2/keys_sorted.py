# hint: Sizes and counts are no longer pairs
def find_knee(steps):
    sizes = np.array(sorted(steps.keys()), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)
    slope, least = np.polyfit(1 / sizes, counts, 1, w=1 / counts)
    return least, slope / least
