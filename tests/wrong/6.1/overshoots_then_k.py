# hint: aims one own rate too high
# same as: rise_of_k.py
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        if update >= warmup_steps:
            return k
        return 1 + k * update / warmup_steps

    return LambdaLR(optimizer, factor)
