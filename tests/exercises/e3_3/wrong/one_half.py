# mistake: This is one half: a ring first adds up (n − 1)/n of the gradients, then sends
#   the sums round, again (n − 1)/n.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    copies = 1 if nccl else n - 1
    data_parallel = copies * (weights + buffers) + (n - 1) * share
    ddp = (n - 1) / n * weights
    return data_parallel, ddp
