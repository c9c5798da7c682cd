# mistake: You tried 94 images at once. Two micro-batches of 47 need less: the first
#   gives back its activations before the second starts.
def largest_microbatch(model, images, labels):
    def fits(n):
        try:
            microbatch(model, images[: 2 * n], labels[: 2 * n])
            return True
        except torch.OutOfMemoryError:
            return False
        finally:
            model.zero_grad()

    low, high = 0, len(images)
    while low < high:
        mid = (low + high + 1) // 2
        if fits(mid):
            low = mid
        else:
            high = mid - 1
    return low
