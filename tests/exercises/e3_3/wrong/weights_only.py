# mistake: Only weights are counted. Each step also sends shares of the batch, and in
#   backward gradients of the outputs.
def bytes_sent(model, images, outputs, n):
    weights = sum(p.nbytes for p in model.parameters())
    data_parallel = (n - 1) * weights
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
