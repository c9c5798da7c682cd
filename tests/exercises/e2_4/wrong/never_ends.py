# mistake: Does the search come to an end? If low + 1 == high, then (low + high) // 2 is
#   low again.
# slow: 3
def largest_microbatch(model, images, labels):
    def fits(n):
        try:
            for _ in range(2):
                microbatch(model, images[:n], labels[:n])
            return True
        except torch.OutOfMemoryError:
            return False
        finally:
            model.zero_grad()

    low, high = 0, len(images)
    while low < high:
        mid = (low + high) // 2
        if fits(mid):
            low = mid
        else:
            high = mid - 1
    return low
