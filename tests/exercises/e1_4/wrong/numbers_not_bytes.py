# mistake: These are numbers, not bytes: float32 has 4 bytes.
def training_bytes(widths, samples):
    count = sum(a * b + b for a, b in zip(widths, widths[1:]))
    return {
        "parameters": count,
        "gradients": count,
        "optimizer state": 2 * count,
        "activations": samples * sum(widths),
    }
