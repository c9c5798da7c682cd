# hint: All batches are received before the first
# same as: copied_at_the_end.py
def digest(queue, count):
    best, counts = [], torch.zeros(10, dtype=torch.int64)
    batches = [queue.get() for _ in range(count)]
    for images, labels in batches:
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(images[brightest].clone())
        counts += torch.bincount(labels, minlength=10)
    return best, counts
