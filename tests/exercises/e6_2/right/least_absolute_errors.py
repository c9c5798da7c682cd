from scipy.optimize import minimize


def find_knee(steps):
    sizes, counts = np.array(list(steps.items()), dtype=float).T

    def error(logs):
        least, knee = np.exp(logs)
        return np.abs(least * (1 + knee / sizes) / counts - 1).sum()

    start = np.log([counts.min(), np.median(sizes)])
    options = {"xatol": 1e-6, "fatol": 1e-9, "maxiter": 5000}
    found = minimize(error, start, method="Nelder-Mead", options=options)
    return tuple(np.exp(found.x))
