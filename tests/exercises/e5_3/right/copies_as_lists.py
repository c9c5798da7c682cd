def digest(queue, count):
    best, counts = [], torch.zeros(10, dtype=torch.int64)
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(torch.tensor(images[brightest].tolist()))
        for label in labels:
            counts[label] += 1
    return best, counts
