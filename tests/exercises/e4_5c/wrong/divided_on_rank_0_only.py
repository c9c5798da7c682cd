# mistake: Divide on all ranks, not on rank 0 alone: the others have the sum.
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        mean /= world_size
        print(f"mean loss {mean.item():.3f}")
    return mean.item()
