# hint: adding 1 to 16,777,216 changes nothing
def digest(queue, count):
    best, counts = [], torch.zeros(10)
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(images[brightest].clone())
        counts += torch.bincount(labels, minlength=10)
    return best, counts
