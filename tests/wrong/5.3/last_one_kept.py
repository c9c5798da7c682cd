# hint: the last one too
def digest(queue, count):
    best, counts = [], torch.zeros(10, dtype=torch.int64)
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        image = images[brightest]
        best.append(image.clone() if len(best) < count - 1 else image)
        counts += torch.bincount(labels, minlength=10)
    return best, counts
