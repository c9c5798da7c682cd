# mistake: OneCycleLR ends after total_steps; this rate has to stay for as long as the
#   training goes on.
from torch.optim.lr_scheduler import OneCycleLR


def make_scheduler(optimizer, k, warmup_steps):
    return OneCycleLR(
        optimizer,
        max_lr=[k * group["lr"] for group in optimizer.param_groups],
        total_steps=warmup_steps + 2,
        pct_start=0.9,
        anneal_strategy="linear",
        div_factor=k,
    )
