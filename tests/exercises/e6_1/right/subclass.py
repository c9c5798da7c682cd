from torch.optim.lr_scheduler import LRScheduler


class Warmup(LRScheduler):
    def __init__(self, optimizer, k, warmup_steps):
        self.k, self.warmup_steps = k, warmup_steps
        super().__init__(optimizer)

    def get_lr(self):
        if self.last_epoch >= self.warmup_steps:
            return [lr * self.k for lr in self.base_lrs]
        gain = (self.k - 1) / self.warmup_steps
        return [lr + lr * gain * self.last_epoch for lr in self.base_lrs]


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
