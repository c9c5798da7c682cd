# mistake: The warm-up is right, but then the rate falls. It stays at k times the own
#   one.
# same as: falls_back.py
from torch.optim.lr_scheduler import ConstantLR, SequentialLR


def make_scheduler(optimizer, k, warmup_steps):
    warmup = LambdaLR(optimizer, lambda u: 1 + (k - 1) * u / warmup_steps)
    flat = ConstantLR(optimizer, factor=1)
    return SequentialLR(optimizer, [warmup, flat], [warmup_steps])
