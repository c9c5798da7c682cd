def count(shares):
    values = [mp.Value("l") for _ in range(10)]

    def add(share):
        for label in share:
            with values[label].get_lock():
                values[label].value += 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return torch.tensor([value.value for value in values])
