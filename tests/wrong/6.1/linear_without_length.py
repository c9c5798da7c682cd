# hint: unless it gets total_iters
from torch.optim.lr_scheduler import LinearLR


def make_scheduler(optimizer, k, warmup_steps):
    for group in optimizer.param_groups:
        group["lr"] *= k
    return LinearLR(optimizer, start_factor=1 / k)
