# hint: Only weights are counted
def bytes_sent(model, images, outputs, n):
    weights = sum(p.nbytes for p in model.parameters())
    data_parallel = (n - 1) * weights
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
