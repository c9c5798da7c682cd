# hint: [read off]
def find_knee(steps):
    sizes = sorted(steps)
    for small, large in zip(sizes, sizes[1:]):
        if steps[large] / steps[small] > 0.75:
            break
    return min(steps.values()), small
