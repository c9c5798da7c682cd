# mistake: last_epoch is for a training that goes on after a stop. Leave it out: its
#   default, -1, starts at update 0.
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        share = min(1, update / warmup_steps) if warmup_steps else 1
        return 1 + (k - 1) * share

    return LambdaLR(optimizer, factor, last_epoch=0)
