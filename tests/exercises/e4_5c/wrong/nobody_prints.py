# hint: [printed]
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return (mean / world_size).item()
