# mistake: The warm-up ends at the optimizer's own rate. It starts there, and ends at
#   k times that.
# same as: ends_at_own_rate.py
from torch.optim.lr_scheduler import LinearLR


def make_scheduler(optimizer, k, warmup_steps):
    return LinearLR(optimizer)
