# hint: not to that of these counts
# same as: shared_too_late.py
def count(shares):
    counts = torch.zeros(10, dtype=torch.int64)
    lock, shared = mp.Lock(), counts.clone().share_memory_()

    def add(share):
        for label in share:
            with lock:
                shared[label] += 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
