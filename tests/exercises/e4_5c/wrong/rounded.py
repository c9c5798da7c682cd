# mistake: This is nearly right. Is it rounded? Only what is printed has 3 digits.
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= world_size
    if rank == 0:
        print(f"mean loss {mean.item():.3f}")
    return round(mean.item(), 3)
