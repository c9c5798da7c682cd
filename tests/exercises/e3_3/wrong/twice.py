# mistake: Nearly: one of the n parts is already where it belongs, so a rank sends (n −
#   1)/n of the gradients, twice.
def bytes_sent(model, images, outputs, n):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    data_parallel = (n - 1) * (weights + buffers + share)
    ddp = 2 * weights
    return data_parallel, ddp
