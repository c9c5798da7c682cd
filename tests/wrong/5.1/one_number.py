# hint: ten numbers, one for each label
def count(shares):
    counts = torch.zeros(1, dtype=torch.int64).share_memory_()
    lock = mp.Lock()

    def add(share):
        nonlocal counts
        for label in share:
            with lock:
                counts += 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
