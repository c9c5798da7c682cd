# mistake: Adam also counts its steps, one number for each weight and each bias: its
#   step counters stay on the CPU.
def training_bytes(widths, samples):
    count = sum(a * b + b for a, b in zip(widths, widths[1:]))
    tensors = 2 * (len(widths) - 1)
    return {
        "parameters": 4 * count,
        "gradients": 4 * count,
        "optimizer state": 8 * count + 4 * tensors,
        "activations": 4 * samples * sum(widths),
    }
