# hint: one update early
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if warmup_steps == 0:
            return k
        return 1 + (k - 1) * min(1, (update + 1) / warmup_steps)

    return LambdaLR(optimizer, factor)
