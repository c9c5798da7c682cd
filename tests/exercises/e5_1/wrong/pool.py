# mistake: A pool and mp.spawn send a function by its name, and one of a cell is not
#   found by it. A forked process has it from the start: fork.Process.
def bincount(share):
    return torch.bincount(torch.tensor(list(share)), minlength=10)


def count(shares):
    with mp.Pool(len(shares)) as pool:
        return sum(pool.map(bincount, shares))
