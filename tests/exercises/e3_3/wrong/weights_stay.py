# mistake: No weights are counted. They do not stay on the devices: each step sends
#   those of all layers anew, model.parameters() and model.buffers().
def bytes_sent(model, images, outputs, n, nccl):
    weights = sum(p.nbytes for p in model.parameters())
    share = (images.nbytes + outputs.nbytes) / n
    data_parallel = (n - 1) * share
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
