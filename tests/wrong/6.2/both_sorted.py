# hint: Sizes and counts are no longer pairs
# same as: keys_sorted.py
def find_knee(steps):
    sizes = np.array(sorted(steps), dtype=float)
    counts = np.array(sorted(steps.values()), dtype=float)
    slope, least = np.polyfit(1 / sizes, counts, 1, w=1 / counts)
    return least, slope / least
