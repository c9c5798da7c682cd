# hint: is no number (nan)
def make_scheduler(optimizer, k, warmup_steps):
    steps = np.float64(warmup_steps)

    def factor(update):
        return 1 + (k - 1) * np.minimum(1, np.float64(update) / steps)

    return LambdaLR(optimizer, factor)
