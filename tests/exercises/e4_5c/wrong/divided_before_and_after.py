# mistake: The mean is divided twice by world_size: once is enough.
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone() / world_size
    dist.all_reduce(mean)
    if rank == 0:
        print(f"mean loss {mean.item() / world_size:.3f}")
    return mean.item() / world_size
