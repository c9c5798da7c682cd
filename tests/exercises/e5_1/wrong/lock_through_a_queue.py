# mistake: A lock cannot go through a queue or to a pool. A forked process has it from
#   the start: fork.Process(target=..., args=...).
def count(shares):
    lock, queue = mp.Lock(), mp.SimpleQueue()
    queue.put(lock)
    return [0] * 10
