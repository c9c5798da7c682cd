# hint: [no number]
def training_bytes(widths, samples):
    count = sum(a * b + b for a, b in zip(widths, widths[1:]))
    return {
        "parameters": f"{4 * count} B",
        "gradients": 4 * count,
        "optimizer state": 8 * count,
        "activations": 4 * samples * sum(widths),
    }
