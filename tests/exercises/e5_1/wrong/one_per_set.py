# mistake: A set drops labels that come again, so each counts once per share. Go through
#   the share itself.
def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()
    lock = mp.Lock()

    def add(share):
        for label in set(share):
            with lock:
                counts[label] += 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
