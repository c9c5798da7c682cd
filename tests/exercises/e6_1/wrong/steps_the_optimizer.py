# hint: [more steps]
class Both:
    def __init__(self, optimizer, scheduler):
        self.optimizer, self.scheduler = optimizer, scheduler

    def step(self):
        self.optimizer.step()
        self.scheduler.step()


def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        share = min(1, update / warmup_steps) if warmup_steps else 1
        return 1 + (k - 1) * share

    return Both(optimizer, LambdaLR(optimizer, factor))
