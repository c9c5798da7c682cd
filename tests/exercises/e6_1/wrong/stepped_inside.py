# mistake: make_scheduler has called the scheduler's step() itself, so one step too
#   many has been made. Only the training loop calls it.
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        share = min(1, update / warmup_steps) if warmup_steps else 1
        return 1 + (k - 1) * share

    scheduler = LambdaLR(optimizer, factor)
    scheduler.step()
    return scheduler
