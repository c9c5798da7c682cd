# mistake: These are the bytes of one sample, the batch has more.
def training_bytes(widths, samples):
    count = sum(a * b + b for a, b in zip(widths, widths[1:]))
    return {
        "parameters": 4 * count,
        "gradients": 4 * count,
        "optimizer state": 8 * count,
        "activations": 4 * sum(widths),
    }
