# mistake: Device 0 keeps its own copy and its own share: it sends to n − 1 devices.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    copies = 1 if nccl else n
    data_parallel = copies * (weights + buffers) + n * share
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
