# hint: A lock cannot go through a queue
def count(shares):
    lock, queue = mp.Lock(), mp.SimpleQueue()
    queue.put(lock)
    return [0] * 10
