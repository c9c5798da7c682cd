def find_knee(steps):
    """Examples to the target, B * steps = least * B + least * knee."""
    B = np.array(sorted(steps))
    examples = np.array([b * steps[b] for b in B])
    least, examples_at_least = np.polyfit(B, examples, 1, w=1 / examples)
    return least.item(), (examples_at_least / least).item()
