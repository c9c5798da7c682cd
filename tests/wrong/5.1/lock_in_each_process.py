# hint: makes a lock of its own
def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()

    def add(share):
        lock = mp.Lock()
        for label in share:
            with lock:
                counts[label] += 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
