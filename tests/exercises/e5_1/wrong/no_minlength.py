# mistake: bincount gives as many numbers as the largest label needs, and not every
#   share has a 9. Ask for ten: bincount(labels, minlength=10).
def count(shares):
    queue = mp.Queue()

    def send(share):
        queue.put(torch.tensor(share).bincount().tolist())

    workers = [mp.Process(target=send, args=(share,)) for share in shares]
    for worker in workers:
        worker.start()
    counts = sum(torch.tensor(queue.get()) for _ in workers)
    for worker in workers:
        worker.join()
    return counts
