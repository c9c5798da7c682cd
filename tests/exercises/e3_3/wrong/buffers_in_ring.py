# mistake: Buffers have no gradients: only parameters count here.
def bytes_sent(model, images, outputs, n):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    data_parallel = (n - 1) * (weights + buffers + share)
    ddp = 2 * (n - 1) / n * (weights + buffers)
    return data_parallel, ddp
