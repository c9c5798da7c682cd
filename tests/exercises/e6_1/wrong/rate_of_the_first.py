# mistake: All groups get the rate of the first. Each has a rate of its own, and k
#   times that is where it ends.
class Warmup:
    def __init__(self, optimizer, k, warmup_steps):
        self.optimizer, self.k, self.warmup_steps = optimizer, k, warmup_steps
        self.base, self.update = optimizer.defaults["lr"], 0
        self.set()

    def set(self):
        done = self.update >= self.warmup_steps
        share = 1 if done else self.update / self.warmup_steps
        for group in self.optimizer.param_groups:
            group["lr"] = self.base * (1 + (self.k - 1) * share)

    def step(self):
        self.update += 1
        self.set()


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
