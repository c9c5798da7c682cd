# mistake: Batch size times steps is a straight line, but the errors grow with it:
#   those at the largest batch decide. Divide each by its own value.
def find_knee(steps):
    sizes = np.array(list(steps), dtype=float)
    counts = np.array(list(steps.values()), dtype=float)

    least, both = np.polyfit(sizes, sizes * counts, 1)
    return least, both / least
