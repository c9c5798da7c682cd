# mistake: Without NCCL the weights go out once for each of the other n − 1 devices,
#   not once.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    data_parallel = weights + buffers + (n - 1) * share
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
