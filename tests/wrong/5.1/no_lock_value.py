# hint: another process may come between
# same as: no_lock.py
def count(shares):
    values = [mp.Value("l", lock=False) for _ in range(10)]

    def add(share):
        for label in share:
            values[label].value += 1

    workers = [mp.Process(target=add, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return torch.tensor([value.value for value in values])
