def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()
    lock, view = mp.Lock(), counts.numpy()

    def add(share):
        for label in share:
            with lock:
                view[label] += 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
