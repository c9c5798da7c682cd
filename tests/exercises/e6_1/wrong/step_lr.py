# hint: waits and then jumps
# same as: jumps_at_the_end.py
from torch.optim.lr_scheduler import StepLR


def make_scheduler(optimizer, k, warmup_steps):
    return StepLR(optimizer, warmup_steps, gamma=k)
