# hint: waits and then jumps
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        return 1 if update < warmup_steps else k

    return LambdaLR(optimizer, factor)
