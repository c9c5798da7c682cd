def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()
    lock = mp.Lock()

    def add(share):
        own = torch.bincount(torch.tensor(list(share)), minlength=10)
        lock.acquire()
        counts.add_(own)
        lock.release()

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
