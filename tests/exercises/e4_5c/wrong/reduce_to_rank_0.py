# mistake: Every rank needs the mean: call all_reduce on all of them, reduce gives it to
#   one.
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.reduce(mean, dst=0)
    mean /= world_size
    if rank == 0:
        print(f"mean loss {mean.item():.3f}")
    return mean.item()
