import threading


def digest(queue, count):
    best, counts = [], torch.zeros(10, dtype=torch.int64)

    def take():
        nonlocal counts
        images, labels = queue.get()
        best.append(images[images.sum((1, 2, 3)).argmax()].clone())
        counts = counts + torch.bincount(labels, minlength=10)

    for _ in range(count):
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
    return best, counts
