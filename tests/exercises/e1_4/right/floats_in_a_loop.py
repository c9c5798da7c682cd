def training_bytes(widths, samples):
    count, numbers = 0, samples * widths[0]
    for i in range(1, len(widths)):
        count += (widths[i - 1] + 1) * widths[i]
        numbers += samples * widths[i]
    found = {"activations": 4.0 * numbers, "parameters": 4.0 * count}
    return found | {"gradients": count * 4.0, "optimizer state": count * 8.0}
