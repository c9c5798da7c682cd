# hint: A function without return in one of its branches
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if update < warmup_steps:
            return 1 + (k - 1) * update / warmup_steps

    return LambdaLR(optimizer, factor)
