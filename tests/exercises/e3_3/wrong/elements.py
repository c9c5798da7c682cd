# mistake: These are elements, not bytes. How many bytes has one? tensor.nbytes.
def bytes_sent(model, images, outputs, n):
    weights = sum(p.numel() for p in model.parameters())
    buffers = sum(b.numel() for b in model.buffers())
    share = (images.numel() + outputs.numel()) / n
    data_parallel = (n - 1) * (weights + buffers + share)
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
