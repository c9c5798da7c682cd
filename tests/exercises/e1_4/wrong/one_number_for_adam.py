# mistake: Adam keeps two numbers per parameter: the mean of the gradient and of its
#   square.
def training_bytes(widths, samples):
    count = sum(a * b + b for a, b in zip(widths, widths[1:]))
    return {
        "parameters": 4 * count,
        "gradients": 4 * count,
        "optimizer state": 4 * count,
        "activations": 4 * samples * sum(widths),
    }
