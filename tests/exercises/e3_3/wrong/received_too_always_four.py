# hint: also counts what device 0 receives
# same as: received_too.py
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(4 * p.numel() for p in model.parameters())
    buffers = sum(4 * b.numel() for b in model.buffers())
    copies = 1 if nccl else n - 1
    share = 4 * (images.numel() + 2 * outputs.numel()) / n
    data_parallel = copies * (2 * weights + buffers) + (n - 1) * share
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
