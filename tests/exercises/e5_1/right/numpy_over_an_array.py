import numpy as np


def add(share, array):
    with array.get_lock():
        np.add.at(np.frombuffer(array.get_obj(), dtype=np.int64), share, 1)


def count(shares):
    array = mp.Array("q", 10)
    workers = [mp.Process(target=add, args=(share, array)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return torch.tensor(array[:])
