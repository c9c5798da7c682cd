# hint: A warm-up of one update is one
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if warmup_steps <= 1 or update >= warmup_steps:
            return k
        return 1 + (k - 1) * update / warmup_steps

    return LambdaLR(optimizer, factor)
