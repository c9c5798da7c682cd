# hint: [too many tries]
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

    n = 0
    while n < len(images) and fits(n + 1):
        n += 1
    return n
