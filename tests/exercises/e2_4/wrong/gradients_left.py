# hint: [gradients]
def largest_microbatch(model, images, labels):
    def fits(n):
        model.zero_grad()
        try:
            for _ in range(2):
                microbatch(model, images[:n], labels[:n])
        except torch.OutOfMemoryError:
            return False
        return True

    good, bad = 0, len(images) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good
