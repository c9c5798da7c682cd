# hint: ends at the optimizer's own rate
# same as: ends_at_own_rate.py
from torch.optim.lr_scheduler import LinearLR


def make_scheduler(optimizer, k, warmup_steps):
    return LinearLR(optimizer)
