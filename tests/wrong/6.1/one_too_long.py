# hint: one update too long
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if warmup_steps == 0:
            return k
        return 1 + (k - 1) * min(1, update / (warmup_steps + 1))

    return LambdaLR(optimizer, factor)
