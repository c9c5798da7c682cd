# hint: not by equal amounts
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if warmup_steps == 0:
            return k
        return 1 + (k - 1) * (1 - math.cos(math.pi * min(1, update / warmup_steps))) / 2

    return LambdaLR(optimizer, factor)
