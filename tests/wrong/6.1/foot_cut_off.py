# hint: cuts the foot off
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if warmup_steps == 0:
            return k
        return max(1, k * min(1, update / warmup_steps))

    return LambdaLR(optimizer, factor)
