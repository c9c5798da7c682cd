# hint: [other number]
# same as: parent_counts.py
import threading


def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()
    lock = threading.Lock()

    def add(share):
        for label in share:
            with lock:
                counts[label] += 1

    workers = [threading.Thread(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
