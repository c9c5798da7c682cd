def count(shares):
    counts, queue = torch.zeros(10, dtype=torch.int64), mp.Queue()

    def send(share):
        for label in share:
            queue.put(label)

    workers = [mp.Process(target=send, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for _ in range(sum(len(share) for share in shares)):
        counts[queue.get()] += 1
    for worker in workers:
        worker.join()
    return counts
