# mistake: The batch itself is kept, too: the first layer needs it in backward.
def training_bytes(widths, samples):
    count = sum(a * b + b for a, b in zip(widths, widths[1:]))
    return {
        "parameters": 4 * count,
        "gradients": 4 * count,
        "optimizer state": 8 * count,
        "activations": 4 * samples * sum(widths[1:]),
    }
