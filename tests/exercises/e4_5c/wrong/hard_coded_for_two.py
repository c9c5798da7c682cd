# mistake: Divide by world_size, not 2: the function is for any number of ranks.
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= 2
    if rank == 0:
        print(f"mean loss {mean.item():.3f}")
    return mean.item()
