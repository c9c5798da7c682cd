# hint: wrong way round
def make_scheduler(optimizer, k, warmup_steps):
    for group in optimizer.param_groups:
        group["lr"] *= k
    ramp = np.linspace(1, 1 / k, warmup_steps + 1)
    return LambdaLR(optimizer, lambda update: ramp[min(update, warmup_steps)])
