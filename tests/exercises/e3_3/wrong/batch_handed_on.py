# mistake: The ring carries weights and buffers alone. Each share of the batch goes
#   straight from device 0, with NCCL, too.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    copies = 1 if nccl else n - 1
    data_parallel = copies * (weights + buffers + share)
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
