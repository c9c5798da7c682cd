def digest(queue, count):
    best, counts = [], torch.zeros(10, dtype=torch.int64)
    left = count
    while left:
        pair = [queue.get() for _ in range(min(2, left))]
        left -= len(pair)
        for images, labels in pair:
            sums = images.flatten(1).sum(1)
            best += [images[sums.argmax()] + 0]
            counts.index_add_(0, labels, torch.ones_like(labels))
        del pair, images, labels
    return torch.stack(best), counts
