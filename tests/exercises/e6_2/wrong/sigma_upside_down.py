# mistake: The weights are the wrong way round: a large count has a large error, so
#   its weight is 1 / count, its sigma the count.
from scipy.optimize import curve_fit


def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    def line(x, least, slope):
        return least + slope * x

    (least, slope), _ = curve_fit(line, 1 / sizes, counts, sigma=1 / counts)
    return least, slope / least
