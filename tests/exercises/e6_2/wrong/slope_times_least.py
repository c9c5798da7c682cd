# mistake: The second number is least * knee, the slope: divide it by least.
# same as: slope_for_knee.py
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    slope, least = np.polyfit(1 / sizes, counts, 1, w=1 / counts)
    return least, slope * least
