# mistake: Batch and output belong to it, too.
def training_bytes(widths, samples):
    count = sum(a * b + b for a, b in zip(widths, widths[1:]))
    return {
        "parameters": 4 * count,
        "gradients": 4 * count,
        "optimizer state": 8 * count,
        "activations": 4 * samples * sum(widths[1:-1]),
    }
