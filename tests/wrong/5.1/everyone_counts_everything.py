# hint: adds 1 to its own number, once
def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()
    lock = mp.Lock()

    def add(share):
        for one in shares:
            for label in one:
                with lock:
                    counts[label] += 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
