# mistake: Right without buffers. A replica needs those of BatchNorm, too, so they are
#   sent in every step: model.buffers().
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    share = (images.nbytes + outputs.nbytes) / n
    copies = 1 if nccl else n - 1
    data_parallel = copies * weights + (n - 1) * share
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
