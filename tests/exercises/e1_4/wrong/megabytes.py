# hint: The number is right in MB
def training_bytes(widths, samples):
    count = sum(a * b + b for a, b in zip(widths, widths[1:]))
    return {
        "parameters": 4 * count / 1e6,
        "gradients": 4 * count / 1e6,
        "optimizer state": 8 * count / 1e6,
        "activations": 4 * samples * sum(widths) / 1e6,
    }
