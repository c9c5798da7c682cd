# hint: Two things live on
def digest(queue, count):
    best, seen = [], []
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(images[brightest])
        seen.append(labels)
    return best, torch.bincount(torch.cat(seen), minlength=10)
