# hint: a single slash
def find_knee(steps):
    sizes, counts = np.array(list(steps)), np.array(list(steps.values()))
    lines = np.stack([np.ones(len(sizes)), 1 // sizes], axis=1) / counts[:, None]
    least, slope = np.linalg.lstsq(lines, np.ones(len(sizes)))[0]
    return least, slope / least
