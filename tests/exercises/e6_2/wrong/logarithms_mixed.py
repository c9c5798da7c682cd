# mistake: log(1 + knee / B) is not knee / B: the logarithm makes no straight line here.
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    knee, constant = np.polyfit(1 / sizes, np.log(counts), 1)
    return math.exp(constant), knee
