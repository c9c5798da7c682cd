# mistake: Absolute errors are made small, and one per cent of the largest count is more
#   than all steps on the right. Divide each error by its own count: w=1 / counts in
#   polyfit, sigma=counts in curve_fit.
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    slope, least = np.polyfit(1 / sizes, counts, 1)
    return least, slope / least
