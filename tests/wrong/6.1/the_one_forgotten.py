# hint: comes from a rate of 0
# same as: starts_from_zero.py
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if warmup_steps == 0:
            return k
        return (k - 1) * min(1, update / warmup_steps)

    return LambdaLR(optimizer, factor)
