# hint: halfway between the two
def make_scheduler(optimizer, k, warmup_steps):
    return LambdaLR(optimizer, lambda u: k - 0.5 if u < warmup_steps else k)
