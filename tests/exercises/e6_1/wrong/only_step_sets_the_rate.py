# hint: no warm-up of one update
# same as: at_least_one_update.py
class Warmup:
    def __init__(self, optimizer, k, warmup_steps):
        self.optimizer, self.k, self.warmup_steps = optimizer, k, warmup_steps
        self.base = [group["lr"] for group in optimizer.param_groups]
        self.update = 0

    def step(self):
        self.update += 1
        done = self.update >= self.warmup_steps
        share = 1 if done else self.update / self.warmup_steps
        for group, lr in zip(self.optimizer.param_groups, self.base):
            group["lr"] = lr * (1 + (self.k - 1) * share)


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
