# hint: without `.step` behind it
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        share = min(1, update / warmup_steps) if warmup_steps else 1
        return 1 + (k - 1) * share

    return LambdaLR(optimizer, factor).step
