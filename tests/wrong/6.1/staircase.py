# hint: climbs stairs
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if warmup_steps == 0:
            return k
        return int(1 + (k - 1) * min(1, update / warmup_steps))

    return LambdaLR(optimizer, factor)
