# hint: [stopped early]
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

    n = 1
    while 2 * n <= len(images) and fits(2 * n):
        n *= 2
    return n
