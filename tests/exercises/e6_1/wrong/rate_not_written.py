# mistake: The rate never changes. Either step() does not write it into every group's
#   group["lr"], or the factor is always 1.
class Warmup:
    def __init__(self, optimizer, k, warmup_steps):
        self.k, self.warmup_steps, self.update = k, warmup_steps, 0
        self.base = optimizer.param_groups[0]["lr"]
        self.lr = self.base

    def step(self):
        self.update += 1
        share = min(1, self.update / self.warmup_steps)
        self.lr = self.base * (1 + (self.k - 1) * share)


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
