# hint: [memory taken]
# same as: tries_inside_except.py
def largest_microbatch(model, images, labels):
    import copy

    def fits(n):
        m = copy.deepcopy(model)
        try:
            for _ in range(2):
                microbatch(m, images[:n], labels[:n])
            return True
        except torch.OutOfMemoryError:
            return False

    low, high = 0, len(images)
    while low < high:
        mid = (low + high + 1) // 2
        if fits(mid):
            low = mid
        else:
            high = mid - 1
    return low
