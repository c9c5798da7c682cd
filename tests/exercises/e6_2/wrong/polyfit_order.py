# mistake: polyfit gives the slope first, then the constant.
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    least, slope = np.polyfit(1 / sizes, counts, 1, w=1 / counts)
    return least, slope / least
