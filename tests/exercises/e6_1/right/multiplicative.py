from torch.optim.lr_scheduler import MultiplicativeLR


def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if update >= warmup_steps:
            return k
        return (k * update + warmup_steps - update) / warmup_steps

    if warmup_steps == 0:
        for group in optimizer.param_groups:
            group["lr"] = k * group["lr"]
    return MultiplicativeLR(optimizer, lambda u: factor(u) / factor(max(0, u - 1)))
