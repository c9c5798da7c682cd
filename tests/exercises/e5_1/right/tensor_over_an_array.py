from collections import Counter


def add(share, array):
    tally = Counter(share)
    own = torch.tensor([tally[label] for label in range(10)])
    with array.get_lock():
        counts = torch.frombuffer(array.get_obj(), dtype=torch.int64)
        counts += own


def count(shares):
    array = mp.Array("q", 10)
    workers = [mp.Process(target=add, args=(share, array)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return torch.tensor(array[:])
