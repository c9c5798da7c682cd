# hint: The weights do not stay
def bytes_sent(model, images, outputs, n):
    weights = sum(p.nbytes for p in model.parameters())
    share = (images.nbytes + outputs.nbytes) / n
    data_parallel = (n - 1) * share
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
