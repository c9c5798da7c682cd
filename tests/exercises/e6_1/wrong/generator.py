# hint: [no scheduler]
def make_scheduler(optimizer, k, warmup_steps):
    base = [group["lr"] for group in optimizer.param_groups]
    for update in range(10**6):
        share = min(1, update / warmup_steps) if warmup_steps else 1
        for group, lr in zip(optimizer.param_groups, base):
            group["lr"] = lr * (1 + (k - 1) * share)
        yield
