from torch.optim.lr_scheduler import LinearLR


def make_scheduler(optimizer, k, warmup_steps):
    for group in optimizer.param_groups:
        group["lr"] *= k
    if warmup_steps == 0:
        return LambdaLR(optimizer, lambda update: 1)
    return LinearLR(optimizer, start_factor=1 / k, total_iters=warmup_steps)
