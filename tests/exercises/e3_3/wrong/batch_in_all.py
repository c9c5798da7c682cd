# mistake: Images and outputs do not go out in all: device 0 keeps its own share, so (n
#   − 1)/n of them.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    batch = images.nbytes + outputs.nbytes
    copies = 1 if nccl else n - 1
    data_parallel = copies * (weights + buffers) + batch
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
