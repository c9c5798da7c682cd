# mistake: The inputs are missing: every other device gets its share of the batch.
def bytes_sent(model, images, outputs, n):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = outputs.nbytes / n
    data_parallel = (n - 1) * (weights + buffers + share)
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
