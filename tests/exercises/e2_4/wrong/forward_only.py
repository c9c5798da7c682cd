# hint: [half a try]
def largest_microbatch(model, images, labels):
    def fits(n):
        try:
            for _ in range(2):
                with torch.no_grad():
                    device = next(model.parameters()).device
                    model(images[:n].to(device))
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
