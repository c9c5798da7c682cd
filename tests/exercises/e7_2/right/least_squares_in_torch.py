def find_crossing(seconds, n):
    sizes = torch.tensor(list(seconds), dtype=torch.float64)
    times = torch.tensor(list(seconds.values()), dtype=torch.float64)
    # each row divided by its time: the right side is 1
    rows = torch.stack([1 / times, sizes / times / 1e6], dim=1)
    alpha, beta = torch.linalg.lstsq(rows, torch.ones_like(times)[:, None]).solution[
        :, 0
    ]
    beta = beta / 1e6
    depth = 0
    while 2**depth < n:
        depth += 1
    crossing = n * (n - 1 - depth) * alpha / ((n * depth - n + 1) * beta)
    return torch.stack([alpha, beta, crossing])
