# hint: [other number]
def count(shares):
    counts = torch.zeros(10, dtype=torch.int64).share_memory_()
    for share in shares:
        counts += torch.bincount(torch.tensor(list(share)), minlength=10)
    return counts
