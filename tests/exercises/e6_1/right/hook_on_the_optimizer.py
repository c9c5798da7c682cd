class Counter:
    def __init__(self):
        self.update = 0

    def step(self, epoch=None):
        self.update += 1


def make_scheduler(optimizer, k, warmup_steps):
    counter = Counter()
    base = [group["lr"] for group in optimizer.param_groups]

    def set_rates(optimizer, args, kwargs):
        done = counter.update >= warmup_steps
        factor = k if done else 1 + (k - 1) * counter.update / warmup_steps
        for group, lr in zip(optimizer.param_groups, base):
            group["lr"] = lr * factor

    optimizer.register_step_pre_hook(set_rates)
    return counter
