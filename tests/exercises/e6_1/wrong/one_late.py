# mistake: Everything comes one update late: the first step() already prepares update
#   1.
class Warmup:
    def __init__(self, optimizer, k, warmup_steps):
        self.optimizer, self.k, self.warmup_steps = optimizer, k, warmup_steps
        self.base = [group["lr"] for group in optimizer.param_groups]
        self.update = 0

    def step(self):
        if self.update < self.warmup_steps:
            factor = 1 + (self.k - 1) * self.update / self.warmup_steps
        else:
            factor = self.k
        for group, lr in zip(self.optimizer.param_groups, self.base):
            group["lr"] = lr * factor
        self.update += 1


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
