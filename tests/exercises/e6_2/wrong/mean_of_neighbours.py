# hint: [other curve]
# same as: gives_up_early.py
def find_knee(steps):
    """The mean over all pairs of neighbours."""
    points = sorted(steps.items())
    leasts, slopes = [], []
    for (a, s), (b, t) in zip(points, points[1:]):
        slope = (s - t) / (1 / a - 1 / b)
        slopes.append(slope)
        leasts.append(s - slope / a)
    least = sum(leasts) / len(leasts)
    return least, sum(slopes) / len(slopes) / least
