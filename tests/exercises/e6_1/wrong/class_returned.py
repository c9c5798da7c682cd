# mistake: The class alone knows no optimizer: call it, and return what comes back.
from torch.optim.lr_scheduler import LRScheduler


def make_scheduler(optimizer, k, warmup_steps):
    class Warmup(LRScheduler):
        def get_lr(self):
            share = min(1, self.last_epoch / warmup_steps) if warmup_steps else 1
            return [lr * (1 + (k - 1) * share) for lr in self.base_lrs]

    return Warmup
