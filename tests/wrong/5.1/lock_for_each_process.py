# hint: as many locks as processes
def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()

    def add(share, lock):
        for label in share:
            with lock:
                counts[label] += 1

    workers = [mp.Process(target=add, args=(share, mp.Lock())) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
