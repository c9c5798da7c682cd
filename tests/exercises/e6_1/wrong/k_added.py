# mistake: k is added to the rate. It is a factor: k *times* the own rate, so the
#   whole rise is (k - 1) times the own rate.
class Warmup:
    def __init__(self, optimizer, k, warmup_steps):
        self.optimizer, self.k, self.warmup_steps = optimizer, k, warmup_steps
        self.base = [group["lr"] for group in optimizer.param_groups]
        self.update = 0

    def step(self):
        self.update += 1
        share = min(1, self.update / self.warmup_steps)
        for group, lr in zip(self.optimizer.param_groups, self.base):
            group["lr"] = lr + self.k * share


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
