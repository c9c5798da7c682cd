# hint: was filled again and again
def digest(queue, count):
    best, counts = [], torch.zeros(10, dtype=torch.int64)
    image = torch.empty(1, 8, 8)
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(image.copy_(images[brightest]))
        counts += torch.bincount(labels, minlength=10)
    return best, counts
