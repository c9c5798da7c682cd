# hint: one function for each parameter group
def make_scheduler(optimizer, k, warmup_steps):
    factors = [1 + (k - 1) * i / warmup_steps for i in range(warmup_steps + 1)]
    return LambdaLR(optimizer, factors)
