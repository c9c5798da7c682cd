# mistake: Only weights are counted. Each step also sends shares of the batch, and in
#   backward gradients of the outputs.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    copies = 1 if nccl else n - 1
    data_parallel = copies * weights
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
