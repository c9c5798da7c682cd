def find_knee(steps):
    B, s = map(np.array, zip(*sorted(steps.items())))
    slope, least = np.polyfit(1 / B, s, deg=1, w=1 / s)
    return [least, slope / least]
