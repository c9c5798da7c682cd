def training_bytes(widths, samples):
    sizes = torch.tensor(widths)
    parameters = 4 * (sizes[:-1] @ sizes[1:] + sizes[1:].sum())
    return {
        "parameters": parameters,
        "gradients": parameters.clone(),
        "optimizer state": parameters * 2,
        "activations": sizes.sum() * samples * 4,
    }
