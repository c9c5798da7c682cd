# mistake: The loop calls scheduler.step() without arguments. ReduceLROnPlateau, which
#   wants a loss, does not fit here.
from torch.optim.lr_scheduler import ReduceLROnPlateau


def make_scheduler(optimizer, k, warmup_steps):
    return ReduceLROnPlateau(optimizer, factor=1 / k, patience=warmup_steps)
