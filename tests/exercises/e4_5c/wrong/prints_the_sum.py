# mistake: This prints the sum of all losses: print the mean.
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= world_size
    if rank == 0:
        print(f"mean loss {mean.item() * world_size:.3f}")
    return mean.item()
