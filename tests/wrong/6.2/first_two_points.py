# hint: Two points decide alone
# same as: end_points.py
def find_knee(steps):
    (a, s), (b, t), *_ = sorted(steps.items())
    slope = (s - t) / (1 / a - 1 / b)
    least = s - slope / a
    return least, slope / least
