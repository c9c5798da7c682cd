from scipy.optimize import curve_fit


def find_crossing(seconds, n):
    sizes, times = (
        np.array(sorted(seconds)),
        np.array([seconds[b] for b in sorted(seconds)]),
    )

    def message(sizes, alpha, beta):
        return alpha + beta * sizes

    (alpha, beta), _ = curve_fit(message, sizes, times, sigma=times)
    steps = (n - 1).bit_length()
    # both costs are straight lines over B, too
    ring = 2 * (n - 1) * alpha, 2 * (n - 1) / n * beta
    tree = 2 * steps * alpha, 2 * steps * beta
    return [alpha, beta, (ring[0] - tree[0]) / (tree[1] - ring[1])]
