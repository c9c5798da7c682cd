# hint: [pair]
# same as: dictionary_returned.py
from scipy.optimize import curve_fit


def find_knee(steps):
    sizes, counts = np.array(list(steps)), np.array(list(steps.values()))
    return curve_fit(lambda B, a, k: a * (1 + k / B), sizes, counts, sigma=counts)
