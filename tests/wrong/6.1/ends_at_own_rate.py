# hint: ends at the optimizer's own rate
from torch.optim.lr_scheduler import LinearLR


def make_scheduler(optimizer, k, warmup_steps):
    return LinearLR(optimizer, start_factor=1 / k, total_iters=warmup_steps)
