# mistake: Each step multiplies what the step before has multiplied, so the factors
#   pile up. Remember the own rates at the start, and multiply those.
# same as: compounding.py
from torch.optim.lr_scheduler import MultiplicativeLR


def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        return 1 + (k - 1) / warmup_steps if update <= warmup_steps else 1

    return MultiplicativeLR(optimizer, factor)
