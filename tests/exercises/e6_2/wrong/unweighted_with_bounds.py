# mistake: Absolute errors are made small, and one per cent of the largest count is more
#   than all steps on the right. Divide each error by its own count: w=1 / counts in
#   polyfit, sigma=counts in curve_fit.
# same as: unweighted.py
from scipy.optimize import curve_fit


def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)
    start = [counts.min(), np.median(sizes)]

    def curve(B, least, knee):
        return least * (1 + knee / B)

    found, _ = curve_fit(curve, sizes, counts, p0=start, bounds=(1, np.inf))
    return tuple(found)
