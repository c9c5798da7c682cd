# hint: [own copies]
# same as: not_shared.py
totals = [0] * 10


def count(shares):
    lock = mp.Lock()

    def add(share):
        for label in share:
            with lock:
                totals[label] += 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return totals
