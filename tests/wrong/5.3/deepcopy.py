# hint: deepcopy of a view copies all the memory
# same as: batch_cloned.py
import copy


def digest(queue, count):
    best, counts = [], torch.zeros(10, dtype=torch.int64)
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(copy.deepcopy(images[brightest]))
        counts += torch.bincount(labels, minlength=10)
    return best, counts
