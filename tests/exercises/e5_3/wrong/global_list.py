# hint: [left]
last = []


def digest(queue, count):
    best, counts = [], torch.zeros(10, dtype=torch.int64)
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(images[brightest].clone())
        counts += torch.bincount(labels, minlength=10)
        last[:] = [images]
    return best, counts
