# hint: Absolute errors are made small
# same as: unweighted.py
from scipy.optimize import curve_fit


def find_knee(steps):
    x, y = list(steps.keys()), list(steps.values())
    popt, pcov = curve_fit(lambda B, a, k: a * (1 + k / np.array(B)), x, y)
    return popt[0], popt[1]
