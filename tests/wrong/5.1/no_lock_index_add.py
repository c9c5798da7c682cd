# hint: another process may come between
# same as: no_lock.py
def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()

    def add(share):
        labels = torch.tensor(list(share))
        counts.index_add_(0, labels, torch.ones_like(labels))

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
