# hint: also counts what device 0 receives
# same as: received_too.py
def bytes_sent(model, images, outputs, n):
    weights = sum(4 * p.numel() for p in model.parameters())
    buffers = sum(4 * b.numel() for b in model.buffers())
    data_parallel = (n - 1) * (
        2 * weights + buffers + (4 * images.numel() + 2 * 4 * outputs.numel()) / n
    )
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
