# hint: [no dict]
def training_bytes(widths, samples):
    count = sum(a * b + b for a, b in zip(widths, widths[1:]))
    return [4 * count, 4 * count, 8 * count, 4 * samples * sum(widths)]
