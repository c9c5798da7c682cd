# mistake: An element has not always 4 bytes: in float64 it has 8. tensor.nbytes and
#   tensor.element_size() know.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(4 * p.numel() for p in model.parameters())
    buffers = sum(4 * b.numel() for b in model.buffers())
    share = 4 * (images.numel() + outputs.numel()) / n
    copies = 1 if nccl else n - 1
    data_parallel = copies * (weights + buffers) + (n - 1) * share
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
