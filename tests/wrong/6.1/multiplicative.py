# hint: the factors pile up
# same as: compounding.py
from torch.optim.lr_scheduler import MultiplicativeLR


def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        return 1 + (k - 1) / warmup_steps if update <= warmup_steps else 1

    return MultiplicativeLR(optimizer, factor)
