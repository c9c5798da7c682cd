import copy


def batches(queue, count):
    for _ in range(count):
        yield queue.get()


def digest(queue, count):
    counts, best = [0] * 10, []
    for images, labels in batches(queue, count):
        place = max(range(len(images)), key=lambda n: float(images[n].sum()))
        best.append(copy.copy(images[place].numpy()))
        for label in labels.tolist():
            counts[label] += 1
        del images, labels
    return best, counts
