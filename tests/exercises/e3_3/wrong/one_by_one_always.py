# mistake: With NCCL device 0 sends weights and buffers once: each device hands them on
#   to the next.
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    data_parallel = (n - 1) * (weights + buffers + share)
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
