# hint: [read off]
# same as: first_useless_doubling.py
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    slope, least = np.polyfit(1 / sizes, counts, 1, w=1 / counts)
    return least, min(steps, key=lambda B: abs(B - slope / least))
