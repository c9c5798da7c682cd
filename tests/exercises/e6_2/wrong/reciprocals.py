# mistake: 1 / steps is no straight line over 1 / B.
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    slope, constant = np.polyfit(1 / sizes, 1 / counts, 1)
    return 1 / constant, slope / constant
