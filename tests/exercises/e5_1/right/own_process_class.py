class Counter(mp.Process):
    def __init__(self, counts, lock, share):
        super().__init__()
        self.counts, self.lock, self.share = counts, lock, share

    def run(self):
        for label in self.share:
            with self.lock:
                self.counts[label].add_(1)


def count(shares):
    counts, lock = torch.zeros(10).share_memory_(), mp.Lock()
    workers = [Counter(counts, lock, share) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts.long().tolist()
