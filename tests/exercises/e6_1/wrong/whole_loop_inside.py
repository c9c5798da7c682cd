# hint: [early steps]
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        share = min(1, update / warmup_steps) if warmup_steps else 1
        return 1 + (k - 1) * share

    scheduler = LambdaLR(optimizer, factor)
    for _ in range(warmup_steps):
        optimizer.step()
        scheduler.step()
    return scheduler
