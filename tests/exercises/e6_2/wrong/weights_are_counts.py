# hint: weights are the wrong way round
# same as: sigma_upside_down.py
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    slope, least = np.polyfit(1 / sizes, counts, 1, w=counts)
    return least, slope / least
