# mistake: ReLU keeps its result, and the number that went in is freed: count each
#   hidden layer once.
def training_bytes(widths, samples):
    count = sum(a * b + b for a, b in zip(widths, widths[1:]))
    return {
        "parameters": 4 * count,
        "gradients": 4 * count,
        "optimizer state": 8 * count,
        "activations": 4 * samples * (sum(widths) + sum(widths[1:-1])),
    }
