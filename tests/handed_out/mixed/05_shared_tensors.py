# %% answer-5-1
def count(shares):
    counts = torch.zeros(10, dtype=torch.int64)

    def add(share):
        for label in share:
            counts[label] += 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts

# %% below check-5-1
run(count, [torch.tensor([1, 2]), torch.tensor([2, 3])])

# %% answer-5-3
def digest(queue, count):
    best, counts = [], torch.zeros(10, dtype=torch.int64)
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(images.index_select(0, brightest[None])[0])
        counts += torch.bincount(labels, minlength=10)
    return best, counts
