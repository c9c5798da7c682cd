# hint: does not fit here
# same as: on_plateau.py
class Warmup:
    def __init__(self, optimizer, k, warmup_steps):
        self.optimizer, self.k, self.warmup_steps = optimizer, k, warmup_steps
        self.base = [group["lr"] for group in optimizer.param_groups]

    def step(self, update):
        share = min(1, update / self.warmup_steps)
        for group, lr in zip(self.optimizer.param_groups, self.base):
            group["lr"] = lr * (1 + (self.k - 1) * share)


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
