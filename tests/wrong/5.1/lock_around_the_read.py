# hint: a process that writes does not hold it
# same as: lock_not_used.py
def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()
    lock = mp.Lock()

    def add(share):
        for label in share:
            with lock:
                old = counts[label].item()
            counts[label] = old + 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
