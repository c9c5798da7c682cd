# hint: steps.items() gives pairs
def find_knee(steps):
    sizes = np.array([B for B, s in steps], dtype=float)
    counts = np.array([s for B, s in steps], dtype=float)
    slope, least = np.polyfit(1 / sizes, counts, 1, w=1 / counts)
    return least, slope / least
