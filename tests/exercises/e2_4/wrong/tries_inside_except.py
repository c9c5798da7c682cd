# hint: [memory taken]
def largest_microbatch(model, images, labels):
    """Each try after a failure runs inside the except block of that failure."""

    def search(good, bad):
        if bad - good < 2:
            return good
        n = (good + bad) // 2
        try:
            batch = images[:n].to(next(model.parameters()).device)
            for _ in range(2):
                loss = model(batch).logsumexp(1).sum()
                loss.backward()
        except torch.OutOfMemoryError:
            return search(good, n)
        return search(n, bad)

    found = search(0, len(images) + 1)
    model.zero_grad()
    return found
