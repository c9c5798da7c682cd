# hint: [changed]
def find_knee(steps):
    points = []
    while steps:
        points.append(steps.popitem())
    sizes, counts = np.array(points, dtype=float).T
    slope, least = np.polyfit(1 / sizes, counts, 1, w=1 / counts)
    return least, slope / least
