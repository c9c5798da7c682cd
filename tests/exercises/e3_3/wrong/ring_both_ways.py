# mistake: In a ring nobody sends all gradients to everybody, and what a rank receives
#   does not count: it sends (n − 1)/n of them, twice.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    copies = 1 if nccl else n - 1
    data_parallel = copies * (weights + buffers) + (n - 1) * share
    ddp = 4 * (n - 1) / n * weights
    return data_parallel, ddp
