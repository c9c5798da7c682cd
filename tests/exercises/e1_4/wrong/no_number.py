# hint: [no number]
# same as: text.py
def training_bytes(widths, samples):
    kinds = "parameters", "gradients", "optimizer state", "activations"
    return dict.fromkeys(kinds, float("nan"))
