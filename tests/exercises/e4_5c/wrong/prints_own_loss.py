# mistake: This prints rank 0's own loss: print the mean.
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= world_size
    if rank == 0:
        print(f"mean loss {loss.item():.3f}")
    return mean.item()
