# hint: [rate of a second training]
update = 0


class Warmup:
    def __init__(self, optimizer, k, warmup_steps):
        self.optimizer, self.k, self.warmup_steps = optimizer, k, warmup_steps
        self.base = [group["lr"] for group in optimizer.param_groups]
        self.set()

    def set(self):
        share = min(1, update / self.warmup_steps) if self.warmup_steps else 1
        for group, lr in zip(self.optimizer.param_groups, self.base):
            group["lr"] = lr * (1 + (self.k - 1) * share)

    def step(self):
        global update
        update += 1
        self.set()


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
