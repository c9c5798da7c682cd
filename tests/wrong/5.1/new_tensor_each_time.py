# hint: makes a new, private tensor
def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()
    lock = mp.Lock()

    def add(share):
        own = counts
        for label in share:
            with lock:
                own = own + torch.nn.functional.one_hot(torch.tensor(label), 10)

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts
