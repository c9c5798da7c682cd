# hint: This is one half
# same as: one_half.py
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    copies = 1 if nccl else n - 1
    data_parallel = copies * (weights + buffers) + (n - 1) * share
    gradients = 4 * sum(p.numel() for p in model.parameters())
    return data_parallel, (n - 1) / n * gradients
