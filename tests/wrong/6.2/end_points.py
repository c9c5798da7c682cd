# hint: Two points decide alone
def find_knee(steps):
    first, last = min(steps), max(steps)
    slope = (steps[first] - steps[last]) / (1 / first - 1 / last)
    least = steps[last] - slope / last
    return least, slope / least
