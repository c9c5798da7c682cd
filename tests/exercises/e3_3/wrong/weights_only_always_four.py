# hint: Only weights are counted
# same as: weights_only.py
def bytes_sent(model, images, outputs, n):
    weights = sum(4 * p.numel() for p in model.parameters())
    data_parallel = (n - 1) * weights
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
