def count(shares):
    slots = torch.zeros(10, len(shares), dtype=torch.int64).share_memory_()

    def add(number, labels):
        one = torch.ones(len(labels), dtype=torch.int64)
        column = torch.full_like(labels, number)
        slots.index_put_((labels, column), one, accumulate=True)

    workers = []
    for number, share in enumerate(shares):
        labels = torch.tensor(list(share))
        workers.append(fork.Process(target=add, args=(number, labels)))
        workers[-1].start()
    while any(worker.is_alive() for worker in workers):
        pass
    return slots.sum(1)
