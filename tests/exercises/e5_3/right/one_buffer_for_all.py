def digest(queue, count):
    best, counts = torch.empty(count, 1, 8, 8), torch.zeros(10, dtype=torch.int64)
    for n in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best[n] = images[brightest]
        counts += torch.bincount(labels, minlength=10)
    return best, counts
