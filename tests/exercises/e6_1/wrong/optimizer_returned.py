# mistake: The optimizer's step() updates weights, not rates. Return the scheduler,
#   which holds the optimizer.
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        share = min(1, update / warmup_steps) if warmup_steps else 1
        return 1 + (k - 1) * share

    LambdaLR(optimizer, factor)
    return optimizer
