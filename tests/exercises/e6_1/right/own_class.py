class Warmup:
    """Each step adds the same amount to the rate of each group."""

    def __init__(self, optimizer, k, warmup_steps):
        self.groups, self.left = optimizer.param_groups, warmup_steps
        if warmup_steps:
            self.gains = [g["lr"] * (k - 1) / warmup_steps for g in self.groups]
        else:
            for group in self.groups:
                group["lr"] *= k

    def step(self):
        if self.left > 0:
            self.left -= 1
            for group, gain in zip(self.groups, self.gains):
                group["lr"] += gain


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
