# hint: Right without buffers
# same as: no_buffers.py
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(4 * p.numel() for p in model.parameters())
    share = (4 * images.numel() + 4 * outputs.numel()) / n
    copies = 1 if nccl else n - 1
    data_parallel = copies * weights + (n - 1) * share
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
