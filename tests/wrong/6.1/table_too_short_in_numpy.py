# hint: The table of rates ends
# same as: table_too_short.py
def make_scheduler(optimizer, k, warmup_steps):
    factors = np.linspace(1, k, warmup_steps + 1)
    return LambdaLR(optimizer, lambda update: factors[update])
