# hint: This is one half
# same as: one_half.py
def bytes_sent(model, images, outputs, n):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    data_parallel = (n - 1) * (weights + buffers + share)
    gradients = 4 * sum(p.numel() for p in model.parameters())
    return data_parallel, (n - 1) / n * gradients
