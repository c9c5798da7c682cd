# hint: [between]
# same as: no_lock.py
import random
import time


def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()

    def add(share):
        time.sleep(0.1 * random.random())
        for label in share:
            counts[label] += 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
