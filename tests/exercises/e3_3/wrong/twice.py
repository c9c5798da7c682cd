# mistake: Nearly: one of the n parts is already where it belongs, so a rank sends (n −
#   1)/n of the gradients, twice.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    copies = 1 if nccl else n - 1
    data_parallel = copies * (weights + buffers) + (n - 1) * share
    ddp = 2 * weights
    return data_parallel, ddp
