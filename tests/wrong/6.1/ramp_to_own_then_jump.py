# hint: and then comes a jump
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if update < warmup_steps:
            return update / warmup_steps
        return k

    return LambdaLR(optimizer, factor)
