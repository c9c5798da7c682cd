def make_scheduler(optimizer, k, warmup_steps):
    # a ramp of no updates is steeper than any
    slope = (k - 1) / warmup_steps if warmup_steps > 0 else math.inf
    return LambdaLR(optimizer, lambda u: min(k, 1 + slope * u) if slope < 1e9 else k)
