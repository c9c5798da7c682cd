# hint: is a view, and it keeps the memory
# same as: images_kept.py
def digest(queue, count):
    best, counts = [], torch.zeros(10, dtype=torch.int64)
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(images[brightest : brightest + 1].view(1, 8, 8))
        counts += torch.bincount(labels, minlength=10)
    return best, counts
