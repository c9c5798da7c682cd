# mistake: Only the first group is raised: optimizer.param_groups may hold several, so
#   go through all of them.
class Warmup:
    def __init__(self, optimizer, k, warmup_steps):
        self.group, self.k, self.warmup_steps = (
            optimizer.param_groups[0],
            k,
            warmup_steps,
        )
        self.base, self.update = self.group["lr"], 0
        self.set()

    def set(self):
        done = self.update >= self.warmup_steps
        share = 1 if done else self.update / self.warmup_steps
        self.group["lr"] = self.base * (1 + (self.k - 1) * share)

    def step(self):
        self.update += 1
        self.set()


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
