# mistake: Divide the whole line by its count: the 1, the 1 / B and the count itself.
# same as: right_side_not_divided.py
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    lines = np.stack([1 + 0 * sizes, 1 / sizes], axis=1)
    least, slope = np.linalg.lstsq(lines, counts / counts)[0]
    return least, slope / least
