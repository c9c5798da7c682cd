from torch.optim.lr_scheduler import ConstantLR, CyclicLR


def make_scheduler(optimizer, k, warmup_steps):
    low = [group["lr"] for group in optimizer.param_groups]
    high = [k * lr for lr in low]
    if warmup_steps == 0:
        for group, lr in zip(optimizer.param_groups, high):
            group["lr"] = lr
        return ConstantLR(optimizer, factor=1)
    return CyclicLR(
        optimizer,
        low,
        high,
        step_size_up=warmup_steps,
        step_size_down=10**9,
        cycle_momentum=False,
    )
