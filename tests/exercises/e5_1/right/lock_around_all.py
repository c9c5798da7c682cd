def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()
    lock = mp.RLock()

    def add(share):
        with lock:
            for label in share:
                counts[label] = counts[label] + 1

    workers = [fork.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
