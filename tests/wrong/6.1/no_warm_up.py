# hint: k times the rate at once
def make_scheduler(optimizer, k, warmup_steps):
    for group in optimizer.param_groups:
        group["lr"] *= k
    return LambdaLR(optimizer, lambda update: 1)
