# hint: [no pair]
def bytes_sent(model, images, outputs, n):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    data_parallel = (n - 1) * (weights + buffers + share)
    return data_parallel
