# mistake: This prints rank 0's own loss divided by 3: print the mean.
# same as: prints_own_loss.py
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= world_size
    if rank == 0:
        print(f"mean loss {loss.item() / world_size:.3f}")
    return mean.item()
