# hint: no warm-up of one update
def make_scheduler(optimizer, k, warmup_steps):
    steps = max(1, warmup_steps)
    return LambdaLR(optimizer, lambda u: 1 + (k - 1) * min(1, u / steps))
