# hint: ends at the optimizer's own rate
# same as: ends_at_own_rate.py
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if warmup_steps == 0:
            return k
        return min(1, (update + 1) / warmup_steps)

    return LambdaLR(optimizer, factor)
