# mistake: One too many: this is the first size that fails. Return the one before.
def largest_microbatch(model, images, labels):
    def fits(n):
        try:
            for _ in range(2):
                microbatch(model, images[:n], labels[:n])
        except torch.OutOfMemoryError:
            return False
        finally:
            model.zero_grad()
        return True

    good, bad = 0, len(images) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return bad
