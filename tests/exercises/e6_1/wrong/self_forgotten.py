# mistake: The first parameter of a method is `self`: def step(self).
class Warmup:
    def __init__(self, optimizer, k, warmup_steps):
        self.update = 0

    def step():
        print("one more")


def make_scheduler(optimizer, k, warmup_steps):
    return Warmup(optimizer, k, warmup_steps)
