# mistake: This also counts what device 0 receives: outputs and gradients come home.
#   Asked for is what it sends.
def bytes_sent(model, images, outputs, n):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    data_parallel = (n - 1) * (
        2 * weights + buffers + (images.nbytes + 2 * outputs.nbytes) / n
    )
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
