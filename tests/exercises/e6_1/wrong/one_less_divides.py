# hint: [one update]
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if update < warmup_steps // 2:
            return 1 + (k - 1) * update / warmup_steps
        rest = (warmup_steps - update) / (warmup_steps - 1)
        return k - (k - 1) * max(0, rest) * (warmup_steps - 1) / warmup_steps

    return LambdaLR(optimizer, factor)
