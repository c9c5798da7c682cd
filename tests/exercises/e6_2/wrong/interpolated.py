# hint: [read off]
# same as: first_useless_doubling.py
def find_knee(steps):
    sizes = sorted(steps)
    counts = [steps[B] for B in sizes]
    least = min(counts)
    # np.interp needs rising values
    knee = np.interp(2 * least, counts[::-1], sizes[::-1])
    return least, knee
