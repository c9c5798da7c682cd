# mistake: The two are swapped: least first.
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    slope, least = np.polyfit(1 / sizes, counts, 1, w=1 / counts)
    return slope / least, least
