def make_scheduler(optimizer, k, warmup_steps):
    if not warmup_steps:
        return LambdaLR(optimizer, lambda _: k)
    return LambdaLR(optimizer, lambda u: np.interp(u, [0, warmup_steps], [1, k]))
