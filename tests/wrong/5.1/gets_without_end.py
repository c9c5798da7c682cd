# hint: that nobody will put there any more
# same as: waits_for_too_many.py
def count(shares):
    counts, queue = torch.zeros(10, dtype=torch.int64), mp.Queue()

    def send(share):
        for label in share:
            queue.put(label)

    workers = [mp.Process(target=send, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    while True:
        counts[queue.get()] += 1
    return counts
