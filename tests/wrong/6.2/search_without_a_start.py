# mistake: The search never ends. sigma=counts makes the errors relative, and
#   p0=(min(counts), 100) is a start near the end.
from scipy.optimize import curve_fit


def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    def curve(B, least, slope, bend):
        return least + slope / B**bend

    (least, slope, bend), _ = curve_fit(curve, sizes, counts)
    return least, (slope / least) ** (1 / bend)
