# hint: waits and then jumps
# same as: jumps_at_the_end.py
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if warmup_steps == 0:
            return k
        return 1 + (k - 1) * min(1, update // warmup_steps)

    return LambdaLR(optimizer, factor)
