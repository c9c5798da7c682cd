def make_scheduler(optimizer, k, warmup_steps):
    ramp = torch.linspace(1, k, warmup_steps + 1)
    ramp[-1] = k

    def factor(update):
        return ramp[min(update, warmup_steps)]

    return LambdaLR(optimizer, factor)
