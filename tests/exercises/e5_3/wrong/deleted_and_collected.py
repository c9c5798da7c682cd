# hint: Two things live on
# same as: leaking.py
import gc


def digest(queue, count):
    best, seen = [], []
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(images[brightest])
        seen.append(labels)
        del images, labels
        gc.collect()
    return best, torch.bincount(torch.cat(seen), minlength=10)
