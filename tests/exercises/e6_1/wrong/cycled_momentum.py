# hint: [setting]
from torch.optim.lr_scheduler import CyclicLR


def make_scheduler(optimizer, k, warmup_steps):
    low = [group["lr"] for group in optimizer.param_groups]
    high = [k * lr for lr in low]
    if warmup_steps == 0:
        return LambdaLR(optimizer, lambda update: k)
    return CyclicLR(
        optimizer, low, high, step_size_up=warmup_steps, step_size_down=10**9
    )
