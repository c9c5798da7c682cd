# mistake: The rate of a group, group["lr"], must be one number.
class Warmup:
    def __init__(self, optimizer, k, warmup_steps):
        self.optimizer, self.k, self.warmup_steps = optimizer, k, warmup_steps
        self.base = [group["lr"] for group in optimizer.param_groups]
        self.update = 0

    def step(self):
        self.update += 1
        share = min(1, self.update / max(1, self.warmup_steps))
        for group in self.optimizer.param_groups:
            group["lr"] = [lr * (1 + (self.k - 1) * share) for lr in self.base]


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
