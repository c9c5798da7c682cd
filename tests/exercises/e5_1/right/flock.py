import fcntl
import tempfile


def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()
    path = tempfile.mktemp()

    def add(share):
        for label in share:
            with open(path, "w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                counts[label] += 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
