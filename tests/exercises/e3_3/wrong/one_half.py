# mistake: This is one half: a ring first adds up (n − 1)/n of the gradients, then sends
#   the sums round, again (n − 1)/n.
def bytes_sent(model, images, outputs, n):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    data_parallel = (n - 1) * (weights + buffers + share)
    ddp = (n - 1) / n * weights
    return data_parallel, ddp
