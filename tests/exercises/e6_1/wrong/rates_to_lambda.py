# mistake: The factor is a rate itself, and LambdaLR multiplies it by the own rate
#   once more. The function returns how many times the own rate: 1 to k.
def make_scheduler(optimizer, k, warmup_steps):
    lr = optimizer.param_groups[0]["lr"]

    def rate(update):
        if update >= warmup_steps:
            return k * lr
        return lr + (k - 1) * lr * update / warmup_steps

    return LambdaLR(optimizer, rate)
