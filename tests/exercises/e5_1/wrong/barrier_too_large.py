# mistake: Each process waits for another one. Look at the line above: who should end,
#   or put something there, and does it?
def count(shares):
    counts = torch.zeros(len(shares), 10, dtype=torch.int64).share_memory_()
    together = mp.Barrier(len(shares) + 1)

    def add(number, share):
        together.wait()
        for label in share:
            counts[number, label] += 1

    workers = [mp.Process(target=add, args=one) for one in enumerate(shares)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts.sum(0)
