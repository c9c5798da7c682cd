# hint: Only the first group is raised
# same as: first_group_only.py
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        share = min(1, update / warmup_steps) if warmup_steps else 1
        return 1 + (k - 1) * share

    others = len(optimizer.param_groups) - 1
    return LambdaLR(optimizer, [factor] + [lambda update: 1] * others)
