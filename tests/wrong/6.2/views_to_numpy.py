# hint: NumPy needs lists
def find_knee(steps):
    sizes, counts = np.array(steps.keys()), np.array(steps.values())
    slope, least = np.polyfit(1 / sizes, counts, 1, w=1 / counts)
    return least, slope / least
