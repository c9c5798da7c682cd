# mistake: Divide the whole line by its count: the 1, the 1 / B and the count itself.
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    lines = np.stack([1 / counts, 1 / (sizes * counts)], axis=1)
    least, slope = np.linalg.lstsq(lines, counts)[0]
    return least, slope / least
