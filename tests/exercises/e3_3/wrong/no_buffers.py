# mistake: Right without buffers. A replica needs those of BatchNorm, too, so they are
#   sent in every step: model.buffers().
def bytes_sent(model, images, outputs, n):
    weights = sum(p.nbytes for p in model.parameters())
    share = (images.nbytes + outputs.nbytes) / n
    data_parallel = (n - 1) * (weights + share)
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
