# mistake: Many batches are received before the first is let go. Take one, keep a copy
#   of what you need, and let it go before the next one comes.
def digest(queue, count):
    best, seen = [], []
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(images[brightest])
        seen.append(labels)
    best = [image.clone() for image in best]
    counts = torch.bincount(torch.cat(seen), minlength=10)
    return best, counts
