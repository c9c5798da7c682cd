from scipy.optimize import curve_fit


def find_knee(steps):
    def curve(B, least, knee):
        return least * (1 + knee / B)

    sizes = np.array(list(steps.keys()))
    counts = np.array(list(steps.values()))
    (least, knee), _ = curve_fit(curve, sizes, counts, sigma=counts)
    return least, knee
