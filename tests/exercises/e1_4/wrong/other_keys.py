# hint: [no key]
def training_bytes(widths, samples):
    count = sum(a * b + b for a, b in zip(widths, widths[1:]))
    return {"weights": 4 * count, "gradients": 4 * count, "adam": 8 * count}
