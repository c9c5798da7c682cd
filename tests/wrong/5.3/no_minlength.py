# hint: as many numbers as the largest label needs
def digest(queue, count):
    best, counts = [], 0
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(images[brightest].clone())
        counts = counts + torch.bincount(labels)
    return best, counts
