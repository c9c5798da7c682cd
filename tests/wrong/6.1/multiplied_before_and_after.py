# hint: ramp does it again
def make_scheduler(optimizer, k, warmup_steps):
    for group in optimizer.param_groups:
        group["lr"] *= k
    steps = max(1, warmup_steps)
    return LambdaLR(optimizer, lambda u: 1 + (k - 1) * min(1, u / steps))
