# hint: The steps at the largest batch are not the least
def find_knee(steps):
    least = steps[max(steps)]
    knees = [(s / least - 1) * B for B, s in steps.items() if s > least]
    return least, sorted(knees)[len(knees) // 2]
