# hint: needs a branch of its own
def make_scheduler(optimizer, k, warmup_steps):
    return LambdaLR(optimizer, lambda u: 1 + (k - 1) * min(1, u / warmup_steps))
