# hint: Only weights are counted
# same as: weights_only.py
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(4 * p.numel() for p in model.parameters())
    copies = 1 if nccl else n - 1
    data_parallel = copies * weights
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
