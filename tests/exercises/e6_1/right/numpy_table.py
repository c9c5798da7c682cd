class Table:
    def __init__(self, optimizer, factors):
        self.optimizer, self.factors, self.update = optimizer, factors, 0
        self.base = np.array([group["lr"] for group in optimizer.param_groups])
        self.set()

    def set(self):
        factor = self.factors[min(self.update, len(self.factors) - 1)]
        for group, lr in zip(self.optimizer.param_groups, self.base * factor):
            group["lr"] = lr

    def step(self):
        self.update += 1
        self.set()


def make_scheduler(optimizer, k, warmup_steps):
    factors = np.linspace(1, k, warmup_steps + 1) if warmup_steps else np.array([k])
    return Table(optimizer, factors)
