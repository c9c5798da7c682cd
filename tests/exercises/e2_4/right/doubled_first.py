def fits(model, images, labels, n):
    try:
        microbatch(model, images[:n], labels[:n])
        microbatch(model, images[:n], labels[:n])
        return True
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        return False


def largest_microbatch(model, images, labels):
    """Double until it fails, then go on in steps of half the size."""
    n = 1
    while 2 * n <= len(images) and fits(model, images, labels, 2 * n):
        n *= 2
    step = n // 2 or 1
    best = n
    while step:
        if best + step <= len(images) and fits(model, images, labels, best + step):
            best += step
        step //= 2
    model.zero_grad(set_to_none=True)
    return best
