# hint: [between]
# same as: no_lock.py
def count(shares):
    total = torch.zeros(10, dtype=torch.int64).share_memory_()
    locks = [mp.Lock() for _ in range(10)]
    one_hot = torch.eye(10, dtype=torch.int64)

    def work(share):
        for label in share:
            with locks[label]:
                total.copy_(total + one_hot[label])

    processes = [mp.Process(target=work, args=(share,)) for share in shares]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return total
