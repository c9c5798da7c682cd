# mistake: Parameter and gradient are counted already: Adam adds two numbers.
def training_bytes(widths, samples):
    count = sum(a * b + b for a, b in zip(widths, widths[1:]))
    return {
        "parameters": 4 * count,
        "gradients": 4 * count,
        "optimizer state": 16 * count,
        "activations": 4 * samples * sum(widths),
    }
