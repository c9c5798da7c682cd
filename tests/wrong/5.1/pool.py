# hint: send a function by its name
def bincount(share):
    return torch.bincount(torch.tensor(list(share)), minlength=10)


def count(shares):
    with mp.Pool(len(shares)) as pool:
        return sum(pool.map(bincount, shares))
