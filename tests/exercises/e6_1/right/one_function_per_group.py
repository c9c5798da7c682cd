def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if update >= warmup_steps:
            return float(k)
        return 1.0 + update * (k - 1.0) / warmup_steps

    return LambdaLR(optimizer, [factor] * len(optimizer.param_groups))
