# mistake: These are elements, not bytes. How many bytes has one? tensor.nbytes.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.numel() for p in model.parameters())
    buffers = sum(b.numel() for b in model.buffers())
    share = (images.numel() + outputs.numel()) / n
    copies = 1 if nccl else n - 1
    data_parallel = copies * (weights + buffers) + (n - 1) * share
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
