# mistake: One micro-batch of this size fits, but not a second one: then the gradients
#   of the first are held, too. Try two after each other.
def largest_microbatch(model, images, labels):
    def fits(n):
        try:
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
    return good
