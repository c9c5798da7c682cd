def training_bytes(widths, samples):
    with torch.device("meta"):
        layers = [nn.Linear(*pair) for pair in zip(widths, widths[1:])]
    parameters = sum(p.nbytes for layer in layers for p in layer.parameters())
    activations = sum(4 * samples * width for width in widths)
    kinds = "parameters", "gradients", "optimizer state", "activations"
    return dict(zip(kinds, (parameters, parameters, 2 * parameters, activations)))
