# hint: [one by one]
def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()

    def add(share):
        for label in share:
            counts[label] += 1

    for share in shares:
        worker = mp.Process(target=add, args=(share,))
        worker.start()
        worker.join()
    return counts
