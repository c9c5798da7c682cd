def digest(queue, count):
    best, seen = [], []
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(images[brightest].clone())
        seen.append(labels.clone())
    return best, torch.cat(seen).bincount(minlength=10)
