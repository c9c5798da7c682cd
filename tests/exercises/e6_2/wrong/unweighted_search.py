# mistake: Absolute errors are made small, and one per cent of the largest count is more
#   than all steps on the right. Divide each error by its own count: w=1 / counts in
#   polyfit, sigma=counts in curve_fit.
# same as: unweighted.py
from scipy.optimize import minimize


def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    def error(logs):
        least, knee = np.exp(logs)
        return ((least * (1 + knee / sizes) - counts) ** 2).sum()

    start = np.log([counts.min(), np.median(sizes)])
    found = minimize(error, start, method="Nelder-Mead", options={"maxiter": 5000})
    return tuple(np.exp(found.x))
