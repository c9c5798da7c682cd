from torch.optim.lr_scheduler import SequentialLR


def make_scheduler(optimizer, k, warmup_steps):
    flat = LambdaLR(optimizer, lambda update: k)
    if warmup_steps == 0:
        return flat
    ramp = LambdaLR(optimizer, lambda update: 1 + (k - 1) * update / warmup_steps)
    return SequentialLR(optimizer, [ramp, flat], milestones=[warmup_steps])
