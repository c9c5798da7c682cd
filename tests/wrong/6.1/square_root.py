# hint: which is the square-root rule
def make_scheduler(optimizer, k, warmup_steps):
    def factor(update):
        end = math.sqrt(k)
        if update >= warmup_steps:
            return end
        return 1 + (end - 1) * update / warmup_steps

    return LambdaLR(optimizer, factor)
