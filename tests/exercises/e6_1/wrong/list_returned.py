# mistake: A rate changes in the course of the training, so a number or a list cannot
#   do it: return an object whose step() sets the rate.
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        share = min(1, update / warmup_steps) if warmup_steps else 1
        return 1 + (k - 1) * share

    lr = optimizer.param_groups[0]["lr"]
    return [lr * factor(update) for update in range(warmup_steps + 1)]
