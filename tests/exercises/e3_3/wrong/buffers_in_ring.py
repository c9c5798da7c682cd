# mistake: Buffers have no gradients: only parameters count here.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    copies = 1 if nccl else n - 1
    data_parallel = copies * (weights + buffers) + (n - 1) * share
    ddp = 2 * (n - 1) / n * (weights + buffers)
    return data_parallel, ddp
