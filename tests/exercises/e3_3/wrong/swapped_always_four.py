# hint: The two numbers are swapped
# same as: swapped.py
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(4 * p.numel() for p in model.parameters())
    buffers = sum(4 * b.numel() for b in model.buffers())
    share = (4 * images.numel() + 4 * outputs.numel()) / n
    copies = 1 if nccl else n - 1
    data_parallel = copies * (weights + buffers) + (n - 1) * share
    ddp = 2 * (n - 1) / n * weights
    return ddp, data_parallel
