# mistake: LinearLR and ConstantLR refuse factors above 1. LambdaLR takes any.
from torch.optim.lr_scheduler import LinearLR


def make_scheduler(optimizer, k, warmup_steps):
    return LinearLR(optimizer, 1.0, k, total_iters=warmup_steps)
