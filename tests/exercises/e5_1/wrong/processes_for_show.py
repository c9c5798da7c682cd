# hint: [idle]
def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()
    workers = [mp.Process(target=print) for share in shares]
    for share, worker in zip(shares, workers):
        worker.start()
        counts += torch.bincount(torch.tensor(list(share)), minlength=10)
    for worker in workers:
        worker.join()
    return counts
