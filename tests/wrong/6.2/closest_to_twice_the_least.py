# hint: Both numbers are read off
# same as: first_useless_doubling.py
def find_knee(steps):
    least = min(steps.values())
    knee = min(steps, key=lambda B: abs(steps[B] - 2 * least))
    return least, knee
