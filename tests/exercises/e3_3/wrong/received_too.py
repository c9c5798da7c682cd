# mistake: This also counts what device 0 receives: outputs and gradients come home.
#   Asked for is what it sends.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    copies = 1 if nccl else n - 1
    share = (images.nbytes + 2 * outputs.nbytes) / n
    data_parallel = copies * (2 * weights + buffers) + (n - 1) * share
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
