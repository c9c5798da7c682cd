# mistake: Each step multiplies what the step before has multiplied, so the factors
#   pile up. Remember the own rates at the start, and multiply those.
class Warmup:
    def __init__(self, optimizer, k, warmup_steps):
        self.optimizer, self.k, self.warmup_steps = optimizer, k, warmup_steps
        self.update = 0

    def step(self):
        self.update += 1
        share = min(1, self.update / self.warmup_steps)
        for group in self.optimizer.param_groups:
            group["lr"] *= 1 + (self.k - 1) * share


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
